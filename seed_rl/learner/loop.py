"""The learner: two queues, for any algorithm and any environment. No algorithm and no flag appears here.

The first queue has requests: `Serving` takes them from actors, and inference answers them. The second has
unrolls: inference writes steps into the experience, and `Source` takes batches out of it, which `_train`
trains on. When training falls behind, the second queue fills up, so inference waits, so actors wait.

Threads: the server's event loop, inference, intake (for replay), prefetch, and training, which is the thread
that calls `run`. With `--synchronous`, that thread also runs inference and sampling (`Lockstep`).
"""

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.devices import report
from seed_rl.devices.placement import choose_precision
from seed_rl.devices.publisher import PolicyCopy, Publisher, WeightsReader
from seed_rl.devices.replicas import Replicas
from seed_rl.experience.base import Batch, Experience, Setup
from seed_rl.experience.source import Source
from seed_rl.hosts.team import Team
from seed_rl.inference.base import Core
from seed_rl.inference.core import InferenceCore
from seed_rl.learner.league import League
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.saving import Saver
from seed_rl.learner.serving import Lockstep, Serving, make_unroll_core
from seed_rl.messages import warn
from seed_rl.metrics.batches import BatchMetrics, PolicyLag
from seed_rl.metrics.cpu import RunCpu
from seed_rl.metrics.health import Health
from seed_rl.metrics.idle_time import (
    INTAKE_FOR_UNROLLS,
    PREFETCH_FOR_EXPERIENCE,
    TRAINING_FOR_BATCH,
    Waits,
)
from seed_rl.metrics.outputs import UnsavedError
from seed_rl.metrics.progress import ProgressDisplay
from seed_rl.metrics.writer import MetricsWriter, Periods
from seed_rl.seeds import derived_seed
from seed_rl.serving.listener import NotServingError
from seed_rl.serving.live import Live
from seed_rl.training.trainer import InitialPriorities, Trainer, UpdateOutput
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security

# Seconds until the training thread detects a stop while it has no batch.
_POLL_SECS = 0.2
_NO_CELLS = "The actors choose the actions (--inference=actor), so this page does not show what they play."


class Learner:
    """One training run, from its last checkpoint until it is complete or stopped."""

    def __init__(
        self,
        config: LearnerConfig,
        environment: EnvironmentDescription,
        algorithm: Algorithm,
        settings: Mapping[str, Any] | None = None,
        security: Security = Security(),  # noqa: B008 (immutable)
        replicas: Replicas | None = None,
        copies: Sequence[PolicyCopy] = (),
        team: Team | None = None,
        display: ProgressDisplay | None = None,
        league: League | None = None,
    ):
        """Prepares the run and restores its last checkpoint; writes nothing and serves no actors yet.

        `settings` of the run, nested dicts, are logged. The algorithm has been created in the scope of
        `replicas`, the training devices; a checkpoint overwrites its variables. `copies` of its policy act,
        one on each inference device; without any, the trained variables act. `display` has shown the start.
        The `league` acts for some of the players of a game; None: all of them learn.

        Raises:
          ValueError: a checkpoint does not fit, or settings contradict each other.
        """
        self._config, self._environment, self._algorithm = config, environment, algorithm
        self._settings, self._security = settings or {}, security
        self._replicas, self._team = replicas or Replicas(), team or Team()
        self._display = display or ProgressDisplay(config.total_environment_frames)
        self._trainer = Trainer(algorithm, config, self._replicas)
        self._league = league
        self._saver = Saver(config, environment.spec, algorithm, self._trainer, self._team, league)
        self._metrics = self._saver.make_metrics(config)
        self._team.report_with(self._metrics)
        self._batches, self._lag = BatchMetrics(), PolicyLag(algorithm.unroll.burn_in)
        reasons = (TRAINING_FOR_BATCH, PREFETCH_FOR_EXPERIENCE, INTAKE_FOR_UNROLLS)
        self._waits, self._prefetch_waits, self._intake_waits = waits = [Waits(reason) for reason in reasons]
        self._measured: tuple[Any, ...] = (self._batches, *waits, RunCpu(), self._lag)
        self._measured += (league,) if league else ()
        actors_act = config.inference == "actor"
        self._experience = self._make_experience()
        self._saver.restore_experience(self._experience)
        self._agent_steps = 0  # Since this process started, on all hosts, as last agreed.
        self.has_reached_return = False  # As last agreed.
        self._next_save = math.inf  # When the next checkpoint is due, by `time.monotonic`.
        self._policy: Callable[[], pb.Policy] | None = None  # For actors that hold it.
        self._live = self._make_live() if config.web.web_address else None
        self._cores: list[Core] = [] if actors_act else self._act_with(copies)
        readers: Sequence[PolicyCopy | WeightsReader] = copies
        if actors_act:
            parts = (algorithm, environment.spec, self._settings, self._experience.store, self._batches)
            core, reader, self._policy = make_unroll_core(*parts)
            self._cores, readers = [core], [reader]
        self._publisher = Publisher(algorithm.policy, readers, config.publish_every)
        self._publisher.publish(self._trainer.updates)

    def _make_experience(self) -> Experience:
        config, algorithm, team = self._config, self._algorithm, self._team
        return algorithm.experience.make(
            Setup(
                # If actors act, unrolls come as a whole, and no steps of environments.
                0 if config.inference == "actor" else config.num_envs - algorithm.num_eval_envs,
                algorithm.unroll,
                config.batch_size // team.count,
                config.seed + team.index,
                InitialPriorities(algorithm),
                team.num_envs(config.num_envs) - algorithm.num_eval_envs,
                None if config.synchronous else self._intake_waits,
                self._trainer.updates,
            )
        )

    def _make_live(self) -> Live:
        """The page for browsers."""
        config, environment, settings = self._config, self._environment, self._settings
        about = {
            "title": config.logdir,
            "agent": settings.get("agent_name", ""),
            "environment": " ".join(filter(None, (environment.name, environment.settings.get("game")))),
            "total_frames": config.total_environment_frames,
            "num_envs": config.num_envs,
            "note": _NO_CELLS if config.inference == "actor" else "",
        }
        of_stages = {**settings.get("learner", {}), **settings.get("agent", {})}
        num_training_envs = config.num_envs - self._algorithm.num_eval_envs
        return Live(about, environment.spec, config.logdir, of_stages, num_training_envs)

    def _act_with(self, copies: Sequence[PolicyCopy]) -> list[Core]:
        """A core for each copy of the policy; if there are none, the variables that are trained also act."""
        # Training may change the variables while a batch is acted on; the version is the one before.
        weights = lambda: contextlib.nullcontext(self._trainer.updates)  # noqa: E731
        config, cores = self._config, list[Core]()
        acting: list[tuple[Any, Any, str]] = [(copy.policy, copy.acting, copy.device) for copy in copies]
        for index, (policy, hold, device) in enumerate(acting or [(self._algorithm.policy, weights, "")]):
            if index:  # Otherwise all devices would draw the same numbers.
                tf.random.set_seed(derived_seed(config.seed, self._team.index, index))
            cores.append(
                InferenceCore(
                    policy,
                    self._environment.spec,
                    config.num_envs,
                    self._algorithm.num_eval_envs,
                    self._experience.store,
                    hold,
                    device,
                    self._batches,
                    config.compiled_batch_size,
                    self._league,
                    derived_seed(config.seed, index),
                    self._live,
                )
            )
        return cores

    def run(self, stopping: Callable[[], bool]) -> str:
        """Trains until the run's frames or `stop_at_return` are reached, or `stopping` returns true.

        Leaves a checkpoint either way, and an exported policy at the end of training. Returns how
        training ended, in a few words; nothing if it is not complete.

        Raises:
          AddressError: the server cannot listen on the address.
          FloatingPointError: the loss is no longer finite; nothing is saved over the last checkpoint.
          NotServingError: the server has ended and cannot listen again; a checkpoint was written.
          UnsavedError: the last checkpoint or the exported policy could not be written; raised at the end.
        """
        with contextlib.closing(self._display):
            return self._run(stopping)

    def _run(self, stopping: Callable[[], bool]) -> str:
        config, team = self._config, self._team
        serving = Serving(
            config,
            self._environment,
            self._cores,
            self._metrics,
            self._security,
            self._experience.background,
            team,
            self._policy,
            self._live,
        )
        # Of several learner hosts, only the first one has metrics.
        writer = MetricsWriter(config.logdir, self._settings, config.wandb_project) if team.is_first else None
        source = self._source(serving)
        complete = farewell = ""
        try:
            self._introduce()
            metrics = self._train(serving, source, writer, stopping)
            if self._frames() >= config.total_environment_frames:
                complete = "Training is complete"
            elif self.has_reached_return:
                complete = "Training is complete, --stop_at_return is reached"
            else:
                farewell = "The learner was stopped."
            self._display.stage("writing the checkpoint" + (" and the exported policy" if complete else ""))
            self._save()  # Before other output, which may take a while.
            if writer is not None:
                writer.write(metrics)
        except BaseException as error:
            farewell = "The learner failed."
            if isinstance(error, NotServingError):
                self._save()  # Its weights are as good as before.
            raise
        finally:
            serving.stop(farewell, self._experience)
            source.close()
            if writer is not None:
                writer.close()
        serving.raise_error()  # A thread may have died since the last check.
        if complete:
            self._saver.export()
        saved = "Stopped without a checkpoint" if self._saver.unsaved else "Stopped with a checkpoint"
        if team.is_first:
            self._display.finish(metrics, complete or saved)
        else:
            self._display.say(f"{complete or saved}.")
        if self._saver.unsaved:
            raise UnsavedError(
                f"{self._saver.unsaved} Free up space, and run the same command again to resume."
            )
        return complete

    def _source(self, serving: Serving) -> Source | Lockstep:
        distribute = self._replicas.distribute
        if self._config.synchronous:
            num_envs = self._team.num_envs(self._config.num_envs)
            return serving.lockstep(self._experience, num_envs, distribute)
        return Source(self._experience, distribute, self._prefetch_waits)

    def _introduce(self) -> None:
        """Logs the run's settings at its start."""
        devices = None if self._policy else [core.device for core in self._cores if core.device]
        batch_size = self._config.batch_size // self._team.count
        self._display.say(report.describe(self._replicas.devices, devices, batch_size))
        precision, reason = choose_precision(self._config.precision)
        if reason:
            self._display.say(f"--precision={self._config.precision} computes in {precision}: {reason}.")
        for sentence in self._saver.warnings:
            self._display.say(sentence)
        if self._saver.resumed_from:
            self._display.say(f"Resuming from {self._saver.resumed_from}.")

    def _train(
        self,
        serving: Serving,
        source: Source | Lockstep,
        writer: MetricsWriter | None,
        stopping: Callable[[], bool],
    ) -> dict[str, Any]:
        """Runs the training loop; returns the last metrics."""
        config, total = self._config, self._config.total_environment_frames
        health = Health(self._environment.spec.action, total, self._settings.get("agent", {}))
        output: UpdateOutput | None = None
        batch: Batch | None = None
        periods = Periods(config.log_period_secs)
        self._next_save = time.monotonic() + config.save_checkpoint_secs
        while True:
            serving.raise_error()
            if output is None:
                waiting = ("waiting for actors", serving.describe_actors)
                self._display.stage(*(("collecting experience",) if self._agent_steps else waiting))
            if batch is None and not stopping() and not self._reaches_return():
                with self._waits(TRAINING_FOR_BATCH):
                    batch = source.next(_POLL_SECS)
            with self._team.joining():
                steps_here = sum(core.agent_steps for core in self._cores)
                agreed = self._team.agree(batch is not None, stopping(), steps_here, self._reaches_return())
                self._agent_steps, self.has_reached_return = agreed.agent_steps, agreed.reached
                if agreed.stop or agreed.reached or self._frames() >= total:
                    self._team.finish()
                    return self._report(output)
                if agreed.may_update and batch is not None:
                    self._lag.add(batch.policy_version, self._trainer.updates)
                    is_first = output is None
                    if is_first:
                        self._display.stage("compiling the first update")
                    output, batch = self._update(batch), None
                    if is_first:
                        periods.first_update()
                        self._display.follow(self._glance)
            now = time.monotonic()
            if now >= self._next_save or self._saver.is_due(self._frames()):
                self._next_save = now + config.save_checkpoint_secs
                _require_finite(output)
                self._save()
                if self._saver.unsaved:
                    warn(f"{self._saver.unsaved} The learner tries again at the next interval.")
            if periods.ended():
                metrics = self._report(output)
                if writer is not None:
                    writer.write(metrics)
                    self._display.show(metrics)
                    for sentence in health.check(metrics):
                        self._display.say(sentence)

    def _reaches_return(self) -> bool:
        """Whether the mean return is that of `stop_at_return`; the first host has all episodes."""
        goal = self._config.stop_at_return
        if goal is None or not self._team.is_first:
            return False
        mean_return = self._metrics.settled_return(self._algorithm.num_eval_envs)
        return mean_return is not None and mean_return >= goal

    def _update(self, batch: Batch) -> UpdateOutput:
        output = self._trainer.update(batch.sample, self._frames() / self._config.total_environment_frames)
        self._publisher.updated(self._trainer.updates)
        if self._league:
            self._league.updated(self._trainer.updates)
        if output.priority is not None:
            _require_finite(output)
            self._experience.update_priorities(batch.handle, output.priority.numpy())
        self._experience.trained()
        return output

    def _report(self, output: UpdateOutput | None) -> dict[str, Any]:
        metrics = self._metrics.take(self._agent_steps, self._trainer.updates)
        of_host = {name: value for part in self._measured for name, value in part.take().items()}
        of_host |= self._experience.figures() | {"learner_memory_mib": metrics["learner_memory_mib"]}
        metrics |= self._team.exchange(of_host)
        if output is not None:
            _require_finite(output)
            metrics |= {name: float(value.numpy()) for name, value in output.metrics.items()}
        return metrics

    def _glance(self) -> dict[str, Any]:
        """The metrics that a terminal shows between periods."""
        metrics = self._metrics.glance(self._agent_steps)
        return metrics | {"secs_to_checkpoint": self._next_save - time.monotonic()}

    def _frames(self) -> int:
        """Environment frames of the run, on all hosts."""
        return self._metrics.env_frames(self._agent_steps)

    def _save(self) -> None:
        self._saver.save(self._frames(), self._metrics, self._experience)


def _require_finite(output: UpdateOutput | None) -> None:
    """Raises FloatingPointError if the network diverged in the last update or before it."""
    if output is None:
        return
    if not all(np.isfinite(output.metrics[name].numpy()) for name in ("loss", "gradient_norm")):
        raise FloatingPointError(
            "The loss or its gradient is no longer finite; lower --learning_rate or --clip_norm and "
            "resume from the last checkpoint."
        )
