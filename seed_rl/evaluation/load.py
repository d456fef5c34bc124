"""Loads the policy of a run from one of its checkpoints."""

import os
from pathlib import Path
from typing import NamedTuple

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.policy import Policy
from seed_rl.runs import record
from seed_rl.runs.layout import CHECKPOINT_INDEX, RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.training.checkpoint import best_checkpoint, newest_checkpoint, restore_algorithm
from seed_rl.types import EnvironmentSpec


class Trained(NamedTuple):
    """A policy with the weights of a checkpoint.

    Attributes:
      checkpoint: path prefix of the checkpoint.
      env_frames: environment frames that the policy was trained for.
      seconds: seconds of training up to the checkpoint.
    """

    policy: Policy
    checkpoint: str
    env_frames: int
    seconds: float


def find_checkpoint(run: RunRecord, checkpoint: str) -> str:
    """The path prefix of a run's checkpoint: `last`, `best`, or a path prefix.

    Raises:
      ValueError: there is no such checkpoint; the message is one sentence.
    """
    if checkpoint not in ("last", "best"):
        prefix = checkpoint.removesuffix(CHECKPOINT_INDEX)
        if not os.path.exists(f"{prefix}{CHECKPOINT_INDEX}"):
            example = RunDirectory(Path("RUN")).checkpoints.prefix(1200)
            raise ValueError(
                f"--checkpoint={checkpoint} is not a checkpoint; use last, best, or the path of one "
                f"without its ending, such as {example}."
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


def load(run: RunRecord, checkpoint: str, spec: EnvironmentSpec) -> Trained:
    """Makes the policy of a run, with the weights of a checkpoint (path prefix), for the run's environments.

    Raises:
      ValueError: the checkpoint does not match the run's settings; the message is one sentence, which
        names the differences where they are known.
    """
    algorithm = algorithms.make(run.agent, run.agent_config(), spec, int(run.learner_settings["num_envs"]))
    try:
        progress = restore_algorithm(algorithm, checkpoint)
    except ValueError as error:
        found = _recorded_differences(run, checkpoint)
        if not found:
            raise
        raise ValueError(
            f"The checkpoint {checkpoint} does not match the configuration of {run.logdir} "
            f"({'; '.join(found)}); use the --logdir that it was trained in."
        ) from error
    return Trained(
        algorithm.policy, checkpoint, int(progress.env_frames.numpy()), float(progress.seconds.numpy())
    )


def _recorded_differences(run: RunRecord, checkpoint: str) -> list[str]:
    """The settings that differ between `run` and the run in whose directory the checkpoint is."""
    for directory in list(Path(os.path.realpath(checkpoint)).parents)[:4]:
        try:
            other = record.read(str(directory))
        except ValueError:
            continue
        return record.differences(other.identity, run.identity)
    return []
