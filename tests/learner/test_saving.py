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
from tests.waiting import DEADLINE_SECS


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

    def save(self, frames):
        """Saves as after so many frames, and as many updates."""
        self.experience.contents = f"at {frames}"
        self._trainer.iteration.assign(frames)
        self._trainer.updates = frames
        self.saver.save(frames, self._figures, self.experience)


# Each child of this process is a learner. The first one saves at 10 and at 20 frames, and dies in the second
# save, just before or after a call; the next one resumes, and saves at 30 frames.
CODE = """
import json, os, pathlib, sys
import tensorflow as tf
from tests.learner.test_saving import Experience, SavingRun

def die(*args, **kwargs):
    os._exit(9)

def dies_around(owner, name, when, nth):
    real, calls = getattr(owner, name), []
    def call(*args, **kwargs):
        calls.append(name)
        if len(calls) == nth and when == "before":
            die()
        real(*args, **kwargs)
        if len(calls) == nth:
            die()
    setattr(owner, name, call)

def first(logdir, owner, name, when, nth=1):
    run = SavingRun(logdir)
    run.save(10)
    dies_around({"experience": Experience, "checkpoint": tf.train.Checkpoint, "path": pathlib.Path,
                 "os": os}[owner], name, when, nth)
    run.save(20)

def second(logdir):
    run = SavingRun(logdir)
    found = {"checkpoint": run.saver.env_frames, "replay": run.experience.contents}
    run.save(30)
    found["files"] = sorted(p.name for p in pathlib.Path(logdir, "checkpoints").iterdir() if p.is_file())
    return found

for case in json.loads(sys.argv[1]):
    if os.fork() == 0:
        first(*case)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 9
    if os.fork() == 0:
        print(json.dumps(second(case[0])), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""

# Place at which the process ends in its second save, and the frames from which the next one resumes.
DEATHS = {
    "before the replay": (("experience", "save", "before"), 10),
    "after the replay": (("experience", "save", "after"), 10),
    "before the checkpoint": (("checkpoint", "write", "before"), 10),
    "after the checkpoint": (("checkpoint", "write", "after"), 10),
    "before the checkpoint's data have their name": (("path", "replace", "before"), 10),
    "before the checkpoint's index has its name": (("path", "replace", "before", 2), 10),
    "after the checkpoint's index has its name": (("path", "replace", "after", 2), 20),
    "before the replay's last byte": (("os", "fsync", "before"), 10),
    "before the replay has its name": (("os", "replace", "before"), 10),
    "before the replay has its last name": (("path", "replace", "before", 3), 20),
    "after the replay has its last name": (("path", "replace", "after", 3), 20),
}


@pytest.mark.slow
def test_checkpoint_and_replay_are_of_one_moment_wherever_the_process_dies(tmp_path):
    cases = [[str(tmp_path / str(i)), *DEATHS[name][0]] for i, name in enumerate(DEATHS)]
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(cases)], capture_output=True, text=True, timeout=DEADLINE_SECS
    )
    assert done.returncode == 0, done.stderr
    found = dict(zip(DEATHS, map(json.loads, done.stdout.splitlines()), strict=True))
    for name, (_, frames) in DEATHS.items():
        assert (found[name]["checkpoint"], found[name]["replay"]) == (frames, f"at {frames}"), name
        left = {file.partition(".")[0] for file in found[name]["files"]}
        assert left == {f"ckpt-{frames}", "ckpt-30", "ckpt-10", "replay"}, name
        assert len(found[name]["files"]) == 2 * (len(left) - 1) + 1, (name, found[name]["files"])
