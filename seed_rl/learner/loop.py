"""The learner: wires inference, experience and training together, for any algorithm and any environment.

No algorithm and no flag appears here. Threads: the server's event loop, inference, intake (for replay),
prefetch, and training, which is the thread that calls `run`. With `--synchronous`, that thread also runs
inference and sampling (`learner.lockstep`).
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seed_rl.algorithms.base import Algorithm
from seed_rl.devices import report
from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.devices.replicas import Replicas
from seed_rl.experience.intake import Intake
from seed_rl.experience.source import DeviceBatch, Source
from seed_rl.inference.core import BatchFigures, InferenceCore
from seed_rl.learner.config import LearnerConfig
from seed_rl.learner.figures import RunFigures
from seed_rl.learner.health import Health
from seed_rl.learner.lockstep import Lockstep
from seed_rl.learner.serving import Serving
from seed_rl.messages import warn
from seed_rl.runs.layout import RunDirectory
from seed_rl.training.checkpoint import WRITE_ERRORS, Checkpointer
from seed_rl.training.export import export_policy
from seed_rl.training.guard import Guard, UnsavedError, reason
from seed_rl.training.initial_priorities import InitialPriorities
from seed_rl.training.metrics import MetricsWriter
from seed_rl.training.progress import ProgressDisplay
from seed_rl.training.trainer import Trainer, UpdateOutput
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security

# How soon the training thread notices that it should stop while it has no batch.
_POLL_SECS = 0.2


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
    ):
        """Prepares the run and restores its last checkpoint; writes nothing and serves no actors yet.

        Args:
          config: settings.
          environment: the environments.
          algorithm: the algorithm to train; a checkpoint overwrites its variables.
          settings: settings of the run, nested dicts, for the logs.
          security: TLS and token that actors need.
          replicas: the training devices, in whose scope the algorithm has been created.
          copies: of its policy, one on each inference device; none: the variables that are trained also act.

        Raises:
          ValueError: a checkpoint does not fit, or settings contradict each other.
        """
        self._config, self._environment, self._algorithm = config, environment, algorithm
        self._settings, self._security = settings or {}, security
        self._replicas = replicas or Replicas()
        self._trainer = Trainer(algorithm, config, self._replicas)
        self._checkpointer = Checkpointer(
            config.logdir,
            algorithm,
            self._trainer,
            config.keep_checkpoints,
            config.keep_checkpoint_every_hours,
        )
        self.resumed_from = self._checkpointer.restore()
        self._unsaved = ""
        if self.resumed_from is None and config.init_checkpoint:
            self._checkpointer.initialize_from(config.init_checkpoint)
        progress = self._checkpointer.progress
        self._saved_frames = int(progress.env_frames.numpy()) if self.resumed_from else None
        self._figures = RunFigures(
            environment.spec.num_action_repeats,
            int(progress.env_frames.numpy()),
            float(progress.seconds.numpy()),
            int(progress.episodes.numpy()),
            config.num_envs - algorithm.num_eval_envs,
            config.evaluation_window,
            progress.recent.value,
        )
        self._experience = algorithm.experience.make(
            config.batch_size, algorithm.unroll, InitialPriorities(algorithm), config.seed
        )
        if self.resumed_from:
            self._experience.restore(self._checkpointer.experience_path)
        in_a_thread = self._experience.inserts_slowly and not config.synchronous
        self._intake = Intake(self._experience) if in_a_thread else None
        self._publisher = Publisher(algorithm.policy, copies, config.publish_every)
        self._publisher.publish(self._trainer.updates)
        # Training may change shared variables while a batch is acted on; the version is the one before.
        shared = (algorithm.policy, lambda: contextlib.nullcontext(self._trainer.updates), "")
        self._batch_figures = BatchFigures()
        self._cores = [
            InferenceCore(
                policy,
                environment.spec,
                algorithm.unroll,
                config.num_envs,
                algorithm.num_eval_envs,
                (self._intake or self._experience).insert,
                weights,
                device,
                self._batch_figures,
                config.compiled_batch_size,
            )
            for policy, weights, device in [(c.policy, c.acting, c.device) for c in copies] or [shared]
        ]

    def run(self, stopping: Callable[[], bool]) -> bool:
        """Trains until the run's environment frames are reached or `stopping` returns true.

        Leaves a checkpoint either way, and an exported policy at the end of training.

        Returns:
          Whether training is complete.

        Raises:
          AddressError: the server cannot listen on the address.
          FloatingPointError: the loss is no longer finite; nothing is saved over the last checkpoint.
          UnsavedError: the last checkpoint or the exported policy could not be written; raised at the end.
        """
        config, guard = self._config, Guard()
        serving = Serving(config, self._environment, self._cores, self._figures, self._security, self._intake)
        display = ProgressDisplay(config.total_environment_frames, self._frames(), guard)
        metrics = MetricsWriter(config.logdir, self._settings, config.wandb_project, guard)
        source: Source | Lockstep = (
            Lockstep(serving, self._experience, config.num_envs, self._replicas.distribute)
            if config.synchronous
            else Source(self._experience, self._replicas.distribute)
        )
        complete = farewell = ""
        try:
            display.say(
                report.describe(self._replicas.devices, [core.device for core in self._cores if core.device])
            )
            for path in self._checkpointer.skipped:
                display.say(f"Warning: the checkpoint {path} is incomplete; it is skipped.")
            if self.resumed_from:
                display.say(f"Resuming from {self.resumed_from}.")
            figures = self._train(serving, source, metrics, display, stopping)
            if self._frames() >= config.total_environment_frames:
                complete = "Training is complete"
            else:
                farewell = "The learner was stopped."
            self._save()  # Before other output, which may take a while.
            metrics.write(figures)
        except BaseException:
            farewell = "The learner failed."
            raise
        finally:
            serving.stop(farewell, self._experience)
            source.close()
            metrics.close()
        serving.raise_error()  # A thread may have died since the last check.
        if complete:
            self._export()
        saved = "Stopped without a checkpoint" if self._unsaved else "Stopped with a checkpoint"
        display.finish(figures, complete or saved)
        if self._unsaved:
            raise UnsavedError(f"{self._unsaved} Free up space, and run the same command again to resume.")
        return bool(complete)

    def _train(
        self,
        serving: Serving,
        source: Source | Lockstep,
        metrics: MetricsWriter,
        display: ProgressDisplay,
        stopping: Callable[[], bool],
    ) -> dict[str, Any]:
        """Runs the training loop; returns the last figures."""
        config, total = self._config, self._config.total_environment_frames
        health = Health(self._environment.spec.action, total)
        output: UpdateOutput | None = None
        lags: list[float] = []
        last_log = last_save = time.monotonic()
        while not stopping() and self._frames() < total:
            serving.raise_error()
            batch = source.next(_POLL_SECS)
            if batch is not None:
                lags.append(self._trainer.updates - float(np.mean(batch.policy_version)))
                output = self._update(batch)
            now = time.monotonic()
            if now - last_save >= config.save_checkpoint_secs:
                last_save = now
                _require_finite(output)
                self._save()
                if self._unsaved:
                    warn(f"{self._unsaved} The learner tries again at the next interval.")
            if now - last_log >= config.log_period_secs:
                last_log = now
                figures = self._report(output, lags)
                metrics.write(figures)
                display.show(figures)
                for sentence in health.check(figures):
                    display.say(sentence)
                lags = []
        return self._report(output, lags)

    def _update(self, batch: DeviceBatch) -> UpdateOutput:
        output = self._trainer.update(batch.sample, self._frames() / self._config.total_environment_frames)
        self._publisher.updated(self._trainer.updates)
        if output.priority is not None:
            _require_finite(output)
            self._experience.update_priorities(batch.handle, output.priority.numpy())
        return output

    def _report(self, output: UpdateOutput | None, lags: list[float]) -> dict[str, Any]:
        figures = self._figures.take(self._agent_steps(), self._trainer.updates)
        figures |= self._batch_figures.take() | self._experience.figures()
        if lags:
            figures["policy_lag_updates"] = float(np.mean(lags))
        if output is not None:
            _require_finite(output)
            figures |= {name: float(value.numpy()) for name, value in output.metrics.items()}
        return figures

    def _frames(self) -> int:
        return self._figures.env_frames(self._agent_steps())

    def _agent_steps(self) -> int:
        return sum(core.agent_steps for core in self._cores)

    def _save(self) -> None:
        """Writes a checkpoint; sets `_unsaved` to a sentence about what went wrong, or to an empty string."""
        progress, frames = self._checkpointer.progress, self._frames()
        progress.env_frames.assign(frames)
        progress.agent_steps.assign(frames // self._environment.spec.num_action_repeats)
        progress.episodes.assign(self._figures.episodes)
        progress.seconds.assign(self._figures.seconds)
        progress.recent.value = self._figures.recent
        try:
            self._checkpointer.save()
            self._saved_frames = frames
            mean_return = self._figures.settled_return(self._algorithm.num_eval_envs)
            if mean_return is not None:
                self._checkpointer.save_if_best(mean_return)
            self._experience.save(self._checkpointer.experience_path)
            self._unsaved = ""
        except WRITE_ERRORS as error:
            last = "there is none yet"
            if self._saved_frames is not None:
                last = f"the last checkpoint is from {self._saved_frames:,} frames"
            self._unsaved = (
                f"The checkpoint at {frames:,} frames cannot be written completely ({reason(error)}); {last}."
            )

    def _export(self) -> None:
        directory = RunDirectory(Path(self._config.logdir)).saved_model
        try:
            export_policy(self._algorithm.policy, self._environment.spec, str(directory))
        except WRITE_ERRORS as error:
            what = f"The policy cannot be exported ({reason(error)}), though its checkpoint is complete."
            self._unsaved = self._unsaved or what


def _require_finite(output: UpdateOutput | None) -> None:
    """Raises FloatingPointError if the network diverged in the last update or before it."""
    if output is None:
        return
    if not all(np.isfinite(output.metrics[name].numpy()) for name in ("loss", "gradient_norm")):
        raise FloatingPointError(
            "The loss or its gradient is no longer finite; lower --learning_rate or --clip_norm and "
            "resume from the last checkpoint."
        )
