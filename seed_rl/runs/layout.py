"""The names of all files and folders in a run directory; docs/run_directory.md says what each one is for.

Nothing else in seed_rl spells them out. This module imports the standard library only, and writes nothing.
"""

import dataclasses
import os
import re
from collections.abc import Iterable
from pathlib import Path

# The first part of a checkpoint's prefix, and the ending of the file that TensorFlow writes last.
CHECKPOINT_NAME = "ckpt"
CHECKPOINT_INDEX = ".index"

# Optuna's record of the trials of a sweep, in the directory that contains those of its trials.
SWEEP_JOURNAL = "journal.log"


@dataclasses.dataclass(frozen=True)
class CheckpointDirectory:
    """A directory of checkpoints; each is several files with a common prefix, ckpt-UPDATES.

    Attributes:
      path: the directory, which may not exist.
    """

    path: Path

    @property
    def unfinished(self) -> Path:
        """The directory in which a checkpoint is written, before its files get their place."""
        return self.path / "unfinished"

    def prefix(self, updates: int) -> Path:
        """The path that the names of a checkpoint's files start with."""
        return self.path / f"{CHECKPOINT_NAME}-{updates}"

    def prefixes(self) -> list[Path]:
        """The prefixes of the checkpoints that have an index, the one with the most updates first."""
        pattern = re.compile(f"{CHECKPOINT_NAME}-(0|[1-9][0-9]*){re.escape(CHECKPOINT_INDEX)}")
        names = (path.name for path in self.path.glob(f"{CHECKPOINT_NAME}-*"))
        numbers = (int(found[1]) for found in map(pattern.fullmatch, names) if found)
        return [self.prefix(number) for number in sorted(numbers, reverse=True)]


class RunDirectory:
    """The paths in the directory of one run, the value of --logdir, which may not exist.

    A directory with the file `record` is a run directory. `events`, `evaluation_events`, `saved_model`,
    `evaluations` and `wandb` are folders.
    """

    def __init__(self, path: Path):
        self.path = path
        self.record = path / "run.json"
        self.settings = path / "settings.json"
        self.lock = path / "learner.lock"
        self.metrics = path / "metrics.jsonl"
        self.events = path / "tensorboard"
        self.evaluation_events = self.events / "evaluation"
        self.checkpoints = CheckpointDirectory(path / "checkpoints")
        self.best_checkpoints = CheckpointDirectory(self.checkpoints.path / "best")
        self.kept_checkpoints = CheckpointDirectory(self.checkpoints.path / "kept")
        self.best_record = self.best_checkpoints.path / "best.json"
        self.saved_model = path / "saved_model"
        self.onnx = path / "policy.onnx"
        self.evaluations = path / "evaluations"
        self.wandb = path / "wandb"
        self.plot = path / "plot.png"
        self.videos = path / "videos"
        self.videos_log = path / "videos.log"

    def environment_function(self, fingerprint: str) -> Path:
        """The function that makes the environments, if one was given; see `environments.function_file`."""
        return self.path / f"environment_{fingerprint[:12]}.pickle"

    def replay(self, host: int = 0, num_hosts: int = 1) -> Path:
        """The contents of a learner host's replay at the last checkpoint."""
        number = f"_{host}_of_{num_hosts}" if num_hosts > 1 else ""
        return self.checkpoints.path / f"replay{number}.bin"

    def replays(self) -> list[Path]:
        """All files with the contents of replay, whatever the number of hosts was."""
        return sorted(self.checkpoints.path.glob("replay*.bin"))

    def evaluation(self, checkpoint: str | Path) -> Path:
        """The results of evaluating a checkpoint (JSON), given its path prefix; only the last part counts."""
        return self.evaluations / f"{Path(checkpoint).name}.json"

    def learner_log(self, index: int) -> Path:
        """The output of one of a launcher's learners (text); the first one, 0, has none."""
        return self.path / f"learner_{index}.log"

    def actor_log(self, number: int) -> Path:
        """The output of one of a launcher's actors (text); actors are numbered from 0."""
        return self.path / f"actor_{number}.log"


def find_runs(paths: Iterable[str | Path]) -> dict[Path, str]:
    """The run directories among the paths, or up to three levels below them; each once.

    Returns:
      For each one the directory of its sweep; else the path in which it was found, or "" if it is that path.

    Raises:
      ValueError: a path is no directory, or contains no run; the message is one sentence.
    """
    found: dict[str, tuple[Path, str]] = {}
    for path in map(Path, paths):
        name = RunDirectory(path).record.name
        try:
            is_directory = path.is_dir()
            files = [file for depth in range(4) for file in path.glob("*/" * depth + name)]
            runs = sorted(file.parent for file in files if file.is_file())
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); name another directory.") from None
        if not is_directory:
            raise ValueError(f"{path} is not a directory; name the --logdir of a run.")
        if not runs:
            raise ValueError(
                f"{path} contains no {name}, and neither does any directory within it; pass the --logdir of "
                "a run, or a directory of runs."
            )
        for run in runs:
            sweep = run.parent.parent  # Of a run in SWEEP/TRIAL/SEED.
            is_trial = (sweep / SWEEP_JOURNAL).is_file()
            source = str(sweep) if is_trial else "" if run == path else str(path)
            found.setdefault(os.path.realpath(run), (run, source))
    return dict(found.values())
