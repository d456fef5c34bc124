"""Checkpoints and replay in the run directory, and resuming from them."""

import contextlib
import math
import re
from pathlib import Path

from seed_rl.algorithms.base import Algorithm
from seed_rl.experience.base import Experience
from seed_rl.experience.replay_file import DamagedError
from seed_rl.files import set_aside
from seed_rl.hosts.team import Team
from seed_rl.learner.league import League
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.messages import reason
from seed_rl.metrics.run import RunMetrics
from seed_rl.runs.layout import RunDirectory
from seed_rl.training.checkpoint import WRITE_ERRORS, Checkpointer
from seed_rl.training.export import export_policy
from seed_rl.training.trainer import Trainer
from seed_rl.types import EnvironmentSpec


class Saver:
    """Checkpoints, the contents of replay, and the exported policy.

    Of several learner hosts, the first one saves and restores all of them but replay, which each host has.

    Attributes:
      resumed_from: the checkpoint that the run resumes from; None: it is new, or another host has resumed it.
      warnings: sentences on files that are damaged, and on weights of another run that this one starts with.
      unsaved: a sentence on what could not be written the last time; empty if all was.
    """

    def __init__(
        self,
        config: LearnerConfig,
        spec: EnvironmentSpec,
        algorithm: Algorithm,
        trainer: Trainer,
        team: Team,
        league: League | None = None,
    ):
        """Restores the last checkpoint into the variables of all hosts; writes nothing.

        Raises:
          ValueError: a checkpoint does not fit.
        """
        self._spec, self._algorithm, self._trainer, self._team = spec, algorithm, trainer, team
        self._run = RunDirectory(Path(config.logdir))
        self._replay = self._run.replay(team.index, team.count)
        self._checkpointer = Checkpointer(
            config.logdir,
            algorithm,
            trainer,
            config.keep_checkpoints,
            config.keep_checkpoint_every_hours,
            league.saved if league else None,
        )
        self._league = league
        self.resumed_from: str | None = None
        self.unsaved = ""
        self.warnings: list[str] = []
        if team.is_first:
            self.resumed_from = self._checkpointer.restore()
            self.warnings = [
                f"Warning: the checkpoint {path} is damaged, and its files are renamed; the one before it is "
                "used. A replay that was saved is newer than that."
                for path in self._checkpointer.skipped
            ]
            if self.resumed_from is None and config.init_checkpoint:
                path = self._checkpointer.initialize_from(config.init_checkpoint)
                self.warnings = [f"Starting with the weights of {path}."]
        if league:
            league.restored()
        team.share(self._checkpointer.variables)
        trainer.restored()
        self._saved_frames = self.env_frames if self.resumed_from else None
        every = config.keep_checkpoint_every_agent_steps
        self._keep_every_frames = every * spec.num_action_repeats if every else math.inf
        self._kept = self.env_frames // self._keep_every_frames

    @property
    def env_frames(self) -> int:
        """Environment frames of the run at the last checkpoint, or since then when it was saved."""
        return int(self._checkpointer.progress.env_frames.numpy())

    def make_metrics(self, config: LearnerConfig) -> RunMetrics:
        """The metrics of the run, which continue where the last checkpoint left them."""
        progress = self._checkpointer.progress
        return RunMetrics(
            self._spec.num_action_repeats,
            self.env_frames,
            float(progress.seconds.numpy()),
            int(progress.episodes.numpy()),
            config.num_envs - self._algorithm.num_eval_envs,
            config.evaluation_episodes_per_point or config.evaluation_window,
            progress.recent.value,
            has_separate_points=config.evaluation_episodes_per_point is not None,
        )

    def restore_experience(self, experience: Experience) -> None:
        """Loads what this host saved of the experience, if the run is resumed.

        A damaged file is renamed, and the experience stays empty. ValueError if the file cannot be read, or
        the run was saved on another number of hosts.
        """
        with contextlib.suppress(OSError):
            for path in self._replay.parent.glob(f"{self._replay.name}.*"):
                ending = path.name.removeprefix(self._replay.name)
                if ending == self._moment(self.env_frames):  # A process was killed before it renamed this.
                    path.replace(self._replay)
                elif re.fullmatch(r"(\.\d+(_\d+)?)?(\.tmp)?", ending):
                    path.unlink()
        if not self.env_frames:
            return
        found = [str(path) for path in self._run.replays()]
        if experience.is_saved and found and str(self._replay) not in found:
            raise ValueError(
                f"Replay was saved on another number of learner hosts ({', '.join(found)}); resume on that "
                "number, or move these files away to continue with an empty replay."
            )
        try:
            experience.restore(str(self._replay))
        except DamagedError as error:
            aside = set_aside(self._replay)
            self.warnings.append(
                f"Warning: {self._replay} cannot be used ({error}); it is {aside.name} now, and replay "
                "starts empty."
            )

    def _moment(self, env_frames: int) -> str:
        """Ending of a replay whose checkpoint, with these updates and frames, may not be complete yet."""
        return f".{self._trainer.updates}_{env_frames}"

    def is_due(self, env_frames: int) -> bool:
        """Whether a checkpoint is due that is kept for good, at these environment frames of the run."""
        return env_frames // self._keep_every_frames > self._kept

    def save(self, env_frames: int, metrics: RunMetrics, experience: Experience) -> None:
        """Writes what the experience holds and a checkpoint; sets `unsaved`.

        Until the checkpoint is complete, the replay of the one before it stays: whatever ends this process, a
        run resumes with both of one moment. Another host saves its replay at any time.
        """
        is_kept, self._kept = self.is_due(env_frames), env_frames // self._keep_every_frames
        new_replay = self._replay.with_name(self._replay.name + self._moment(env_frames))
        try:
            try:
                if experience.is_saved:
                    self._replay.parent.mkdir(parents=True, exist_ok=True)
                    experience.save(str(new_replay if self._team.is_first else self._replay))
            finally:  # A checkpoint without its replay is better than none.
                if self._team.is_first:
                    self._save_checkpoint(env_frames, metrics, new_replay)
            if self._team.is_first and is_kept:
                self._checkpointer.keep()
            self.unsaved = ""
        except WRITE_ERRORS as error:
            last = "there is none yet"
            if self._saved_frames is not None:
                last = f"the last checkpoint is from {self._saved_frames:,} frames"
            if not self._team.is_first:
                last = f"this is learner host {self._team.index}'s replay only"
            self.unsaved = (
                f"The checkpoint at {env_frames:,} frames cannot be written completely ({reason(error)}); "
                f"{last}."
            )
        with contextlib.suppress(OSError):
            new_replay.unlink()  # Its checkpoint is not complete.

    def _save_checkpoint(self, env_frames: int, metrics: RunMetrics, new_replay: Path) -> None:
        progress = self._checkpointer.progress
        progress.env_frames.assign(env_frames)
        progress.agent_steps.assign(env_frames // self._spec.num_action_repeats)
        progress.episodes.assign(metrics.episodes)
        progress.seconds.assign(metrics.seconds)
        progress.recent.value = metrics.recent
        if self._league:
            self._league.before_save()
        self._checkpointer.save()
        self._saved_frames = env_frames
        with contextlib.suppress(OSError):
            new_replay.replace(self._replay)
        mean_return = metrics.settled_return(self._algorithm.num_eval_envs)
        if mean_return is not None:
            self._checkpointer.save_if_best(mean_return)

    def export(self) -> None:
        """Exports the policy, on the first host; sets `unsaved` if that fails and nothing else has."""
        if not self._team.is_first:
            return
        try:
            export_policy(self._algorithm.policy, self._spec, str(self._run.saved_model))
        except WRITE_ERRORS as error:
            what = f"The policy cannot be exported ({reason(error)}), though its checkpoint is complete."
            self.unsaved = self.unsaved or what
