"""Settings of an evaluation, and the run that they name: its environments, and a policy that it trained."""

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import Probed
from seed_rl.launch.probe import Probe, found
from seed_rl.loading import fast_tensorflow_import
from seed_rl.options import Options, option, part
from seed_rl.runs import record
from seed_rl.runs.layout import CHECKPOINT_INDEX, RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.runs.trust import check_imports
from seed_rl.seeds import LARGEST_SEED, derived_seed
from seed_rl.types import EnvironmentSpec

if TYPE_CHECKING:
    from seed_rl.algorithms.policy import Policy
    from seed_rl.training.checkpoint import Progress

# A value of --checkpoint: each that was kept. The number of episodes, unless something else limits them.
KEPT, _EPISODES = "kept", 200
_CHECKPOINT = (
    "The checkpoint: last, best (by the run's own mean return), or a path prefix such as .../ckpt-1200."
)
_TRUST = (
    "Import the modules that the run's record names (--game=module:Id, --network=module:Class), also if "
    "they are neither installed nor on PYTHONPATH, and the run was not trained here by this user."
)


@dataclasses.dataclass(frozen=True)
class SubjectConfig(Options):
    """Run, and one of its checkpoints."""

    logdir: str | None = option(None, "Directory of the run; it can be given without the flag.", is_path=True)
    checkpoint: str = option("last", _CHECKPOINT, is_path=True)
    trust_code: bool = option(False, _TRUST)


@dataclasses.dataclass(frozen=True)
class PlayConfig(Options):
    """Number of episodes to play, their seed, the choice of actions, and a file for the results."""

    episodes: int | None = option(
        None,
        "Number of episodes to play (in a tournament, of each pair); by default 200, or with "
        "--max_agent_steps as many as end within them.",
        at_least=1,
    )
    max_agent_steps: int | None = option(
        None, "Most agent steps, of all environments together; unfinished episodes do not count.", at_least=1
    )
    num_envs: int = option(16, "Number of environments, or players, that play at the same time.", at_least=1)
    greedy: bool = option(
        False,
        "Take the best action at every step. By default V-trace samples from its policy, and R2D2 explores "
        "with the run's --eval_epsilon (paper: 1e-3).",
    )
    seed: int = option(1, "Seed; each episode derives its own.", at_least=0, at_most=LARGEST_SEED)
    output: str | None = option(
        None,
        "JSON file for the results; by default evaluations/ckpt-UPDATES.json in the run directory (with "
        "--against, ckpt-UPDATES_against_RUN_ckpt-UPDATES.json), and none of a tournament.",
        is_path=True,
    )
    overwrite: bool = option(False, "Overwrite results and videos that already exist.")
    trust_code: bool = option(False, _TRUST)
    failures: FailureConfig = part(FailureConfig)

    @property
    def episodes_asked(self) -> int | None:
        """Number of episodes to play; None: as many as `max_agent_steps` allows."""
        return self.episodes or (None if self.max_agent_steps else _EPISODES)


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(PlayConfig, SubjectConfig):
    """Checkpoint to evaluate, its opponent in games of several players, and a video."""

    checkpoint: str = option(
        "last",
        f"{_CHECKPOINT} kept: each of those of --keep_checkpoint_every_agent_steps, unless it has results.",
        is_path=True,
    )
    against: str | None = option(
        None,
        "Opponent in a game of several players, a run or a checkpoint's path prefix: it plays all but one, "
        "which the run plays, in turn each of them. By default the run plays them all.",
        is_path=True,
    )
    record: str | None = option(
        None,
        "Video file, .mp4 or .gif, of the best and a median episode. Needs the extra [record].",
        is_path=True,
    )

    def validate(self) -> None:
        """Checks that the video's name ends in a supported format, and that files are of one checkpoint."""
        if self.checkpoint == KEPT and (self.output or self.record or self.against):
            raise ValueError(
                f"--checkpoint={KEPT} evaluates several checkpoints, and --output and --record name a file "
                "for one, and --against is for one; leave them out."
            )
        if self.record is not None and not self.record.endswith((".mp4", ".gif")):
            raise ValueError(
                f"--record={self.record} has no supported format; its name must end in .mp4 or .gif."
            )


class Subject(NamedTuple):
    """A run, its environments, and a policy that it trained.

    Attributes:
      run: the record of the run.
      suite: the suite of the run's environments.
      environment_config: their settings, for evaluation.
      probed: facts about them.
      policy: with the weights of the checkpoint.
      checkpoint: path prefix of the checkpoint.
      env_frames: environment frames that the policy was trained for.
      seconds: seconds of training up to the checkpoint.
    """

    run: RunRecord
    suite: Suite
    environment_config: EnvironmentConfig
    probed: Probed
    policy: "Policy"
    checkpoint: str
    env_frames: int
    seconds: float

    @property
    def evaluation_env_id(self) -> int:
        """The first id of environments that only evaluate; the ids of training are below it."""
        return int(self.run.learner_settings["num_envs"])

    @property
    def described(self) -> dict[str, Any]:
        """Names and figures of the subject, for results."""
        about = {"run": str(self.run.logdir), "checkpoint": self.checkpoint, "env_frames": self.env_frames}
        return about | {"training_seconds": self.seconds, "agent": self.run.agent}


def load_subject(name: str, checkpoint: str, config: PlayConfig) -> Subject:
    """Rebuilds the agent of a run, and probes its environments; imports TensorFlow, seeds Keras and NumPy.

    The name is that of the run's directory, or with the checkpoint `last`, the path prefix of another one.

    Raises:
      ValueError: this is not a run directory, or has no such checkpoint, or one that does not match its
        settings; one sentence, which names the differences where they are known.
      ImportError: the suite's engine is not installed.
    """
    run, checkpoint = _recorded(name, checkpoint, config.trust_code)
    suite = environments.suite(run.environment)
    environment_config = run.environment_config().for_evaluation()
    with contextlib.closing(
        Probe([(run.environment, environment_config.to_dict())], config.failures)
    ) as probe:
        with fast_tensorflow_import():
            import keras

            from seed_rl.devices.placement import share_gpus

        share_gpus()
        prefix = _find_checkpoint(run, checkpoint)
        probed = found(*probe.answers())
        probe.warn()
    keras.utils.set_random_seed(derived_seed(config.seed))
    policy, progress = restored(run, probed.spec, prefix)
    trained = int(progress.env_frames.numpy()), float(progress.seconds.numpy())
    return Subject(run, suite, environment_config, probed, policy, prefix, *trained)


def restored(run: RunRecord, spec: EnvironmentSpec, prefix: str) -> "tuple[Policy, Progress]":
    """A run's policy with the weights of a checkpoint, and its progress there; raises ValueError."""
    from seed_rl.training.checkpoint import restore_algorithm

    algorithm = algorithms.make(run.agent, run.agent_config(), spec, int(run.learner_settings["num_envs"]))
    try:
        return algorithm.policy, restore_algorithm(algorithm, prefix)
    except ValueError as error:
        differing = []  # The settings of the run in whose directory the checkpoint is.
        with contextlib.suppress(ValueError):
            differing = record.differences(record.read(_logdir_of(prefix)).identity, run.identity)
        if not differing:
            raise
        raise ValueError(
            f"The checkpoint {prefix} does not match the configuration of {run.logdir} "
            f"({'; '.join(differing)}); use the --logdir that it was trained in."
        ) from error


def _recorded(name: str, checkpoint: str, trust_code: bool) -> tuple[RunRecord, str]:
    """The run of a directory, or of a checkpoint's prefix, and its checkpoint; raises ValueError."""
    prefix = name.removesuffix(CHECKPOINT_INDEX)
    if checkpoint == "last" and os.path.exists(f"{prefix}{CHECKPOINT_INDEX}"):
        name, checkpoint = _logdir_of(prefix), prefix
    run = record.read(name)
    check_imports(run.logdir, run.identity, run.agent_settings, trust_code)
    return run, checkpoint


def _logdir_of(checkpoint: str) -> str:
    """The directory in which a checkpoint is, up to four levels below it; that of a run if there is one."""
    above = list(Path(os.path.realpath(checkpoint)).parents)[:4]
    return str(next((path for path in above if RunDirectory(path).record.exists()), above[0]))


def check_plays(subject: Subject) -> None:
    """Raises ValueError if nothing here can play the run's environment."""
    if subject.environment_config.attaches:
        raise ValueError(
            "The run's environment is in a program of its own; start `seed_rl serve RUN`, and attach that."
        )


def load_rival(name: str, identity: Mapping[str, Any], spec: EnvironmentSpec) -> "Policy":
    """The policy of a run or checkpoint of the same game, for a learner of players with this spec.

    Raises:
      ValueError: there is no such run or checkpoint, or it is of another game; one sentence.
    """
    run, checkpoint = _recorded(name, "last", trust_code=False)
    if run.identity["environment"] != identity["environment"]:
        raise ValueError(
            f"--opponents={name} is a run of another game, or with other settings of it "
            f"({'; '.join(record.differences(run.identity, dict(identity)))}); name one of the same."
        )
    return restored(run, spec, _find_checkpoint(run, checkpoint))[0]


def load_subjects(
    config: PlayConfig, names: Sequence[str], checkpoint: str = "last", least_players: int = 2
) -> list[Subject]:
    """The subjects with these names, which have one environment; the checkpoint is that of the first one.

    Raises:
      ValueError: as in `load_subject`, or several do not all play the same game, of so many players.
    """
    named = zip(names, (checkpoint, *["last"] * len(names)), strict=False)
    subjects = [load_subject(*one, config) for one in named]
    games = [(one.run.environment, one.run.game, one.probed.spec) for one in subjects]
    for one, game in zip(subjects[1:], games[1:], strict=True):
        if game != games[0] or game[-1].num_players < least_players:
            here, there = ("{} {} with {}".format(*each) for each in (game, games[0]))
            needed = "game of several players" if least_players > 1 else "environment"
            raise ValueError(
                f"{one.run.logdir} is of {here}, and {subjects[0].run.logdir} of {there}; name runs of the "
                f"same {needed}, with equal spaces."
            )
    return subjects


def _find_checkpoint(run: RunRecord, checkpoint: str) -> str:
    """The path prefix of a run's checkpoint: `last`, `best`, or a path prefix; raises ValueError."""
    from seed_rl.training.checkpoint import best_checkpoint, newest_checkpoint

    if checkpoint not in ("last", "best"):
        prefix = checkpoint.removesuffix(CHECKPOINT_INDEX)
        if not os.path.exists(f"{prefix}{CHECKPOINT_INDEX}"):
            raise ValueError(
                f"--checkpoint={checkpoint} is not a checkpoint; use last, best, or a path prefix such as "
                ".../ckpt-1200."
            )
        return prefix
    find = newest_checkpoint if checkpoint == "last" else best_checkpoint
    path = find(run.logdir)
    if path is None:
        hint = "wait until the run has saved one (--save_checkpoint_secs)"
        if checkpoint == "best":
            hint = "the first is saved after a full window of episodes; use --checkpoint=last"
        raise ValueError(f"{run.logdir} has no {checkpoint} checkpoint yet; {hint}.")
    return path
