"""The parts of a run, each alone: `python -m benchmarks.parts SECONDS PART[,PART] FLAGS_OF_LOCAL_MAIN`.

Prints one JSON object with the agent steps/s of each part when it has the whole machine to itself:

* `environment`: one process per actor of the run, stepping its environments with random actions;
* `inference`: `EnvTable.act` on batches of --inference_batch_size;
* `training`: `Trainer.update` on batches of --batch_size unrolls or transitions. The rate counts new agent
  steps, each of which is trained on --passes or --replay_ratio times. With an agent that trains in epochs, a
  call trains on a whole rollout for all --epochs.

With the part `matrix_product`, it also prints the GFLOP/s of a large matrix product, those of inference and
of training (of the network, its losses and gradients), and their shares of the matrix product's.

Inference and training use TensorFlow's default number of threads (all cores), whatever the flags are: lower
thread counts of a run must not lower the ceiling. TensorFlow is imported only for these two.
"""

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.harness import print_result, random_actions
from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.making import make_batch, suite_spec
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.flags.settings import Settings
from seed_rl.launch.plan import LocalConfig, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample, flatten_spec, pack_like

if TYPE_CHECKING:
    from seed_rl.algorithms.base import Algorithm

PARTS = ("environment", "inference", "training", "matrix_product")

_WARM_UP_CALLS = 3


def main(argv: list[str]) -> int:
    """Measures the parts given on the command line."""
    if len(argv) < 3 or not set(argv[2].split(",")) <= set(PARTS):
        raise UsageError(f"Run it as: python -m benchmarks.parts SECONDS {','.join(PARTS)} FLAGS.")
    seconds, names = float(argv[1]), argv[2].split(",")
    line = resolve_run([argv[0], *argv[3:]], __doc__ or "")
    rates: dict[str, float] = {}
    if "environment" in names:
        rates["environment"] = _environment_rate(line, seconds)
    if names != ["environment"]:
        learner = LearnerParts(line)
        made = {"inference": learner.inference, "training": learner.training}
        rates |= {name: make().rate(seconds) for name, make in made.items() if name in names}
        if "matrix_product" in names:
            rates |= _arithmetic(learner, rates, seconds)
    print_result(rates)
    return 0


def _arithmetic(learner: "LearnerParts", rates: dict[str, float], seconds: float) -> dict[str, float]:
    """GFLOP/s of a matrix product and of the parts that were measured, and the parts' shares of it."""
    from benchmarks.flops import matrix_product

    highest = Part(*matrix_product(learner.config.precision)).rate(seconds) / 1e9
    found = {"matrix_product_gflops": highest}
    for name, operations in learner.operations().items():
        if name in rates:
            gflops = rates[name] * operations / 1e9
            found |= {f"{name}_gflops": gflops, f"{name}_share": gflops / highest}
    return found


class Part(NamedTuple):
    """A part of a run: `call` does it once, for this many new agent steps, or whatever it is counted in."""

    call: Callable[[], Any]
    agent_steps: float

    def rate(self, seconds: float) -> float:
        """Agent steps/s, measured after a few warm-up calls."""
        for _ in range(_WARM_UP_CALLS):
            self.call()
        count, start = 0, time.monotonic()
        while (elapsed := time.monotonic() - start) < seconds:
            self.call()
            count += 1
        return self.agent_steps * count / elapsed


class _Environments(NamedTuple):
    """The arguments of an environment process, which is newly spawned."""

    suite: str
    config: EnvironmentConfig
    num_envs: int
    first_seed: int
    seconds: float


def _environment_rate(line: Settings, seconds: float) -> float:
    local = line.read(LocalConfig)
    seed = line.read(LearnerConfig, num_envs=1, logdir="").seed
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(local.num_actors), context.SimpleQueue()
    processes = []
    for task in range(local.num_actors):
        first_seed = seed + task * local.env_batch_size
        job = _Environments(
            line.environment, line.environment_config(), local.env_batch_size, first_seed, seconds
        )
        processes.append(context.Process(target=_step_environments, args=(job, barrier, rates), daemon=True))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError("An environment process failed.")
    return sum(rates.get() for _ in processes)


def _step_environments(job: _Environments, barrier: Any, rates: Any) -> None:
    seeds = [job.first_seed + index for index in range(job.num_envs)]
    environment = make_batch(environments.suite(job.suite), job.config, seeds)
    environment.reset(seeds)
    random = np.random.default_rng(job.first_seed)
    part = Part(
        lambda: environment.step(random_actions(random, environment.spec.action, job.num_envs)), job.num_envs
    )
    barrier.wait(60)
    rates.put(part.rate(job.seconds))
    environment.close()


class LearnerParts:
    """Inference and training of the run that a command line describes.

    Attributes:
      config: the learner's settings.
      spec: of the environments.
      algorithm: newly initialized.
    """

    def __init__(self, line: Settings, scope: contextlib.AbstractContextManager | None = None):
        """Creates the algorithm, in `scope` if there is one."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        local = line.read(LocalConfig)
        self._num_envs = local.num_actors * local.env_batch_size
        self.config = line.read(LearnerConfig, num_envs=self._num_envs, server_address="", logdir="")
        suite = environments.suite(line.environment)
        self.spec: EnvironmentSpec = suite_spec(suite, line.environment_config(), self.config.seed)
        self._line = line
        with scope or contextlib.nullcontext():
            self.algorithm = self.make()
        self._random = np.random.default_rng(0)

    def make(self) -> "Algorithm":
        """Another algorithm of the same kind."""
        assert self._line.agent is not None
        with contextlib.ExitStack() as stack:
            if (precision := self._option("precision")) is not None:
                from seed_rl.devices.placement import computing_in

                stack.enter_context(computing_in(precision))
            return algorithms.make(self._line.agent, self._line.agent_config(), self.spec, self._num_envs)

    def _option(self, name: str) -> Any:
        """An option of the learner; None in a checkout that lacks it, the baseline of a comparison."""
        return getattr(self.config, name, None)

    def inference(self) -> Part:
        """One inference call."""
        from seed_rl.inference.env_table import EnvTable
        from seed_rl.inference.rows import Rows
        from seed_rl.wire.codec import StepCodec

        batch = min(self.config.inference_batch_size, self._num_envs)
        table = EnvTable(self.algorithm.policy, self.spec, self._num_envs)
        if (largest := self._option("compiled_batch_size")) is not None:
            from seed_rl.inference.env_table import make_table

            table = make_table(self.algorithm.policy, self.spec, self._num_envs, largest_batch=largest)
        codec = StepCodec(self.spec)
        records, rows = codec.encode(self._env_output(batch)), Rows(codec.record, batch)
        ids = np.arange(batch, dtype=np.int32)

        def act() -> None:
            ids[:] = (ids + batch) % self._num_envs
            rows.fill([records], ids)
            table.act(rows.rows)

        return Part(act, batch)

    def training(self) -> Part:
        """One update."""
        import tensorflow as tf

        from seed_rl.devices.replicas import Replicas
        from seed_rl.training.trainer import Trainer

        replicas = Replicas(jit=True) if self._option("jit") else Replicas()
        trainer = Trainer(self.algorithm, self.config, replicas)
        sample = tf.nest.map_structure(tf.convert_to_tensor, self.sample())

        def update() -> None:
            trainer.update(sample, 0.0).metrics["loss"].numpy()

        return Part(update, self.new_agent_steps)

    def operations(self) -> dict[str, float]:
        """The floating-point operations that inference and training need for a new agent step."""
        import tensorflow as tf

        from benchmarks.flops import gradients, operations

        algorithm, policy = self.algorithm, self.algorithm.policy
        sample = tf.nest.map_structure(tf.convert_to_tensor, self.sample())
        first = tf.nest.map_structure(lambda x: x[0], (sample.prev_action, sample.env))
        size = first[1].reward.shape[0]
        act = operations(policy.act, *first, policy.initial_state(size), tf.range(size))
        passes = 1
        if algorithm.epochs:
            sample, passes = algorithm.prepare(sample), algorithm.epochs.passes
        update = operations(gradients(algorithm), sample)
        return {"inference": act / size, "training": passes * update / self.new_agent_steps}

    @property
    def new_agent_steps(self) -> float:
        """The new agent steps that a call stands for: each is trained on several times."""
        if self._trains_in_epochs:
            return self._num_envs * self.algorithm.unroll.length
        experience, names = self.algorithm.experience, ("passes", "replay_ratio")
        times = next((getattr(experience, name) for name in names if hasattr(experience, name)), 1)
        return self.config.batch_size * self.algorithm.unroll.every / times

    @property
    def _trains_in_epochs(self) -> bool:
        return getattr(self.algorithm, "epochs", None) is not None

    def sample(self) -> Sample:
        """A batch or rollout of random observations, with the policy's answers to the first; NumPy."""
        import tensorflow as tf

        batch = self._num_envs if self._trains_in_epochs else self.config.batch_size
        steps = self.algorithm.unroll.stored_steps
        env = self._env_output(steps, batch)
        policy = self.algorithm.policy
        state, prev_action = policy.initial_state(batch), self.spec.action.zeros(batch)
        first = tf.nest.map_structure(lambda x: tf.constant(x[0]), env)
        output, _ = policy.act(tf.constant(prev_action), first, state, tf.range(batch))
        output = tf.nest.map_structure(lambda x: np.stack([x.numpy()] * steps), output)
        state = tf.nest.map_structure(np.asarray, state)
        return Sample(output.action, env, output, state, np.ones(batch, np.float32))

    def _env_output(self, *leading: int) -> EnvOutput:
        leaves = [self._noise(leading, leaf) for _, leaf in flatten_spec(self.spec.observation)]
        nothing = np.zeros(leading, bool)
        observation = pack_like(self.spec.observation, leaves)
        return EnvOutput(np.zeros(leading, np.float32), nothing, nothing, observation)

    def _noise(self, leading: tuple[int, ...], leaf: ArraySpec) -> np.ndarray:
        top = 256 if leaf.dtype == "uint8" else 1
        return (top * self._random.random((*leading, *leaf.shape))).astype(leaf.dtype)


if __name__ == "__main__":
    run_main(main, sys.argv)
