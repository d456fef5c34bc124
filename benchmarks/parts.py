"""The parts of a run, each alone: `python -m benchmarks parts SECONDS PART[,PART] FLAGS_OF_TRAIN`.

Prints one JSON object with the agent steps/s of each part when it has the whole machine to itself:

* `environment`: one process per actor of the run, stepping its environments with random actions;
* `inference`: `EnvTable.act` on batches of --inference_batch_size;
* `training`: `Trainer.update` on batches of --batch_size unrolls or transitions. The rate counts new agent
  steps, each of which is trained on --passes or --replay_ratio times. With an agent that trains in epochs, a
  call trains on a whole rollout for all --epochs.

Inference and training use TensorFlow's default number of threads (all cores), whatever the flags are: lower
thread counts of a run must not lower the ceiling. TensorFlow is imported only for these two.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import print_result, result_of
from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.making import make_batch, suite_spec
from seed_rl.flags.errors import UsageError
from seed_rl.flags.settings import Settings
from seed_rl.launch.child import ONE_THREAD
from seed_rl.launch.plan import LocalConfig, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample, flatten_spec, pack_like

PARTS = ("environment", "inference", "training")

_WARM_UP_CALLS = 3


def main(argv: list[str]) -> int:
    """Measures the parts given on the command line."""
    if argv[1:] == ["--help"]:
        print(__doc__)
        return 0
    if len(argv) < 3 or not set(argv[2].split(",")) <= set(PARTS):
        raise UsageError(f"Run it as: python -m benchmarks parts SECONDS {','.join(PARTS)} FLAGS.")
    seconds, names = float(argv[1]), argv[2].split(",")
    line = resolve_run([argv[0], *argv[3:]], __doc__ or "")
    rates: dict[str, float] = {}
    if "environment" in names:
        rates["environment"] = _environment_rate(line, seconds)
    if names != ["environment"]:
        learner = LearnerParts(line)
        made = {"inference": learner.inference, "training": learner.training}
        rates |= {name: make().rate(seconds) for name, make in made.items() if name in names}
    print_result(rates)
    return 0


def part_rates(names: str, seconds: float, run_flags: Sequence[str]) -> dict[str, float]:
    """Agent steps/s of parts of a run, each alone, measured in a separate process."""
    env = ONE_THREAD if names == "environment" else {}
    return result_of("parts", str(seconds), names, *run_flags, timeout_secs=4 * seconds, env=env)


class Part(NamedTuple):
    """A part of a run: `call` does it once, for this many new agent steps."""

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


def _environment_rate(line: Settings, seconds: float) -> float:
    local = line.read(LocalConfig)
    seed, size = line.read(LearnerConfig, num_envs=1, logdir="").seed, local.env_batch_size
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(local.num_actors), context.SimpleQueue()
    processes = []
    for first in range(seed, seed + local.num_actors * size, size):
        seeds = list(range(first, first + size))
        job = (line.environment, line.environment_config(), seeds, seconds, barrier, rates)
        processes.append(context.Process(target=_step_environments, args=job, daemon=True))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError("An environment process failed.")
    return sum(rates.get() for _ in processes)


def _step_environments(
    suite: str, config: EnvironmentConfig, seeds: list[int], seconds: float, barrier: Any, rates: Any
) -> None:
    """An environment process, which is newly spawned."""
    environment = make_batch(environments.suite(suite), config, seeds)
    environment.reset(seeds)
    random, count = np.random.default_rng(seeds[0]), len(seeds)
    part = Part(lambda: environment.step(_random_actions(random, environment.spec.action, count)), count)
    barrier.wait(60)
    rates.put(part.rate(seconds))
    environment.close()


def _random_actions(random: np.random.Generator, spec: ArraySpec, num_envs: int) -> np.ndarray:
    """Uniformly random actions `[num_envs, ...]`; continuous ones from -1 to 1."""
    shape = (num_envs, *spec.shape)
    if spec.is_discrete:
        return random.integers(0, np.reshape(spec.num_values, spec.shape), shape, spec.dtype)
    return random.uniform(-1, 1, shape).astype(spec.dtype)


class LearnerParts:
    """Inference and training of the run that a command line describes.

    Attributes:
      config: the learner's settings.
      spec: of the environments.
      algorithm: newly initialized.
    """

    def __init__(self, line: Settings):
        """Creates the algorithm."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        from seed_rl.devices.placement import computing_in

        local = line.read(LocalConfig)
        self._num_envs = local.num_actors * local.env_batch_size
        self.config = line.read(LearnerConfig, num_envs=self._num_envs, server_address="", logdir="")
        suite = environments.suite(line.environment)
        self.spec: EnvironmentSpec = suite_spec(suite, line.environment_config(), self.config.seed)
        assert line.agent is not None
        assert line.agent_class is not None
        with computing_in(self.config.precision):
            config = line.read(line.agent_class)
            self.algorithm = algorithms.make(line.agent, config, self.spec, self._num_envs)
        self._random = np.random.default_rng(0)

    def inference(self) -> Part:
        """One inference call."""
        from seed_rl.inference.env_table import make_table
        from seed_rl.inference.rows import Rows
        from seed_rl.wire.codec import StepCodec

        batch = min(self.config.inference_batch_size, self._num_envs)
        largest = self.config.compiled_batch_size
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

        trainer = Trainer(self.algorithm, self.config, Replicas(jit=self.config.jit))
        sample = tf.nest.map_structure(tf.convert_to_tensor, self.sample())

        def update() -> None:
            trainer.update(sample, 0.0).metrics["loss"].numpy()

        return Part(update, self.new_agent_steps)

    @property
    def new_agent_steps(self) -> float:
        """The new agent steps that a call stands for: each is trained on several times."""
        if self.algorithm.epochs:
            return self._num_envs * self.algorithm.unroll.length
        experience, names = self.algorithm.experience, ("passes", "replay_ratio")
        times = next((getattr(experience, name) for name in names if hasattr(experience, name)), 1)
        return self.config.batch_size * self.algorithm.unroll.every / times

    def sample(self) -> Sample:
        """A batch or rollout of random observations, with the policy's answers to the first; NumPy."""
        import tensorflow as tf

        batch = self._num_envs if self.algorithm.epochs else self.config.batch_size
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
