"""A learner that dies while it saves: what the next one resumes from is of one moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.files import write_atomically
from seed_rl.hosts.team import Team
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.saving import Saver
from seed_rl.training.trainer import Trainer
from tests.learner.test_loop import Bandit
from tests.serving.harness import SPEC


class Experience:
    """Its contents are a text.

    Attributes:
      contents: what was last added or restored; empty if nothing was.
    """

    is_saved = True

    def __init__(self):
        self.contents = ""

    def save(self, path):
        write_atomically(Path(path), self.contents)

    def restore(self, path):
        if Path(path).exists():
            self.contents = Path(path).read_text()


class SavingRun:
    """A learner that has resumed what is in its directory, if anything.

    Attributes:
      saver: under test.
      experience: what it saves besides checkpoints.
    """

    def __init__(self, logdir):
        config = LearnerConfig(logdir=str(logdir), num_envs=4, batch_size=1)
        algorithm = Bandit()
        self._trainer = Trainer(algorithm, config)
        self.saver = Saver(config, SPEC, algorithm, self._trainer, Team())
        self.experience = Experience()
        self.saver.restore_experience(self.experience)
        self._figures = self.saver.make_metrics(config)

    def save(self, frames, updates):
        """Saves as after so many frames and updates."""
        self.experience.contents = f"at {frames}, {updates}"
        self._trainer.iteration.assign(updates)
        self._trainer.updates = updates
        self.saver.save(frames, self._figures, self.experience)

    @property
    def moments(self):
        """Moments of the checkpoint and of the experience that were resumed."""
        return f"at {self.saver.env_frames}, {self._trainer.updates}", self.experience.contents


# Each child of this process is a learner. The first one saves at some moments, and dies in the last of its
# saves, just before or after a call; the next one resumes, and saves at 30 frames and updates.
CODE = """
import json, os, pathlib, sys
import tensorflow as tf
from tests.learner.test_saving import Experience, SavingRun

OWNERS = {"experience": Experience, "checkpoint": tf.train.Checkpoint, "path": pathlib.Path, "os": os}

def dies_around(owner, name, when, nth=1):
    real, calls = getattr(owner, name), []
    def call(*args, **kwargs):
        calls.append(name)
        if len(calls) == nth and when == "before":
            os._exit(9)
        real(*args, **kwargs)
        if len(calls) == nth:
            os._exit(9)
    setattr(owner, name, call)

def first(logdir, saves, owner, *death):
    run = SavingRun(logdir)
    for moment in saves[:-1]:
        run.save(*moment)
    dies_around(OWNERS[owner], *death)
    run.save(*saves[-1])

def second(logdir):
    run = SavingRun(logdir)
    found = {"moments": run.moments}
    run.save(30, 30)
    directory = pathlib.Path(logdir, "checkpoints")
    found["files"] = sorted(path.name for path in directory.iterdir() if path.is_file())
    return found

for logdir, saves, death in json.loads(sys.argv[1]):
    if os.fork() == 0:
        first(logdir, saves, *death)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 9, (saves, death)
    if os.fork() == 0:
        print(json.dumps(second(logdir)), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""

# Place at which the process ends in its last save, and whether the next one resumes from that save.
DEATHS = {
    "before the replay": (("experience", "save", "before"), False),
    "before the replay's last byte": (("os", "fsync", "before"), False),
    "before the replay has its name": (("os", "replace", "before"), False),
    "after the replay": (("experience", "save", "after"), False),
    "before the checkpoint": (("checkpoint", "write", "before"), False),
    "after the checkpoint": (("checkpoint", "write", "after"), False),
    "before the checkpoint is complete": (("path", "rename", "before"), False),
    "before the checkpoint's data have their name": (("path", "replace", "before"), True),
    "before the checkpoint's index has its name": (("path", "replace", "before", 2), True),
    "after the checkpoint's index has its name": (("path", "replace", "after", 2), True),
    "after the replay has its last name": (("path", "replace", "after", 3), True),
}
# Moments of saves, in frames and updates. Training goes on without frames, and frames come without updates.
SAVES = {
    "later": [(10, 10), (20, 20)],
    "the first one": [(10, 10)],
    "one moment twice": [(10, 10), (10, 10)],
    "other frames": [(10, 10), (20, 10)],
    "other updates": [(10, 10), (10, 20)],
    "no update yet": [(10, 0), (20, 0)],
}


# Those that matter where a save replaces what has its names, or is of the same frames or updates.
DECISIVE = [
    "after the replay",
    "before the checkpoint's index has its name",
    "after the replay has its last name",
]
CASES = [(saves, name) for saves in SAVES for name in (DEATHS if saves == "later" else DECISIVE)]


@pytest.mark.slow
def test_checkpoint_and_replay_are_of_one_moment_wherever_the_process_dies(tmp_path):
    cases = [[str(tmp_path / str(i)), SAVES[s], DEATHS[name][0]] for i, (s, name) in enumerate(CASES)]
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(cases)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = dict(zip(CASES, map(json.loads, done.stdout.splitlines()), strict=True))
    wrong = {}
    for saves, name in CASES:
        moments = SAVES[saves] if DEATHS[name][1] else SAVES[saves][:-1]
        resumed = ["at {}, {}".format(*moments[-1])] * 2 if moments else ["at 0, 0", ""]
        updates = {moment[1] for moment in [*moments, (30, 30)]}
        files = {f"ckpt-{n}.{ending}" for n in updates for ending in ("index", "data-00000-of-00001")}
        expected = {"moments": resumed, "files": sorted({*files, "replay.bin"})}
        if found[saves, name] != expected:
            wrong[saves, name] = found[saves, name]
    assert wrong == {}
