"""Whole runs with environments that do what they like to their process."""

import signal

import pytest

from tests.installed import install

pytestmark = pytest.mark.slow

MODULE = """
import atexit, gymnasium, os, signal, sys, threading, time
import numpy as np

STEPS = 0

class Rude(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.at("make")

    def reset(self, *, seed=None, options=None):
        self.time = 0
        self.at("reset")
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        global STEPS
        STEPS += 1
        self.time += 1
        self.at("step")
        return np.zeros(2, np.float32), 1.0, self.time == 10, False, {{}}

    def at(self, place):
        {code}

gymnasium.register("Rude-v0", Rude)
"""

RUDE = {
    "ignores signals": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 10, 12, 15)]",
    "exits at signals": "[signal.signal(n, lambda *_: sys.exit(0)) for n in (1, 2, 10, 12, 15)]",
    "changes the directory": "os.chdir('/')",
    "leaves a thread": "place == 'make' and threading.Thread(target=time.sleep, args=(3600,)).start()",
    "prints at exit": "place == 'make' and atexit.register(print, 'Bye.')",
    "hangs at exit": "place == 'make' and atexit.register(time.sleep, 3600)",
    "ends its process with 0 at times": "place == 'step' and STEPS == 1000 and os._exit(0)",
    "ends its process with 2 at times": "place == 'step' and STEPS == 1000 and os._exit(2)",
}


def start(house, code, *args):
    (house.path / "rude.py").write_text(MODULE.format(code=code))
    flags = (
        "--game=rude:Rude-v0",
        "--logdir=run",
        "--num_actors=1",
        "--env_batch_size=4",
        "--log_period_secs=0.25",
    )
    return house.start("train", "gym", "ppo", *flags, *args)


@pytest.mark.parametrize("code", RUDE.values(), ids=RUDE)
def test_a_run_is_complete_where_it_was_started(house, code):
    run = start(house, code, "--total_environment_frames=3000")
    assert run.end() == 0, run.output
    assert (house.logdir / "run.json").exists() and list(house.logdir.glob("checkpoints/*.index"))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("kind", ["ignores signals", "exits at signals"])
def test_a_signal_leaves_a_checkpoint(house, kind, signum):
    run = start(house, RUDE[kind], "--total_environment_frames=1000000000")
    house.wait_for_metrics(lambda line: line["updates"] > 0, run)
    run.signal(signum)
    assert run.end() == 128 + signum, run.output
    assert list(house.logdir.glob("checkpoints/*.index"))


THEIRS = """
import os
from seed_rl.environments.suites.catch import SUITE

with open({seen!r}, "a") as file:
    print(os.getpid(), file=file)
"""
# A learner that shows which suites its process has imported.
LEARNER = """
import sys
from seed_rl.commands.learner import main
code = main(["learner", *sys.argv[1:]])
print([name for name in sys.modules if name.startswith("seed_rl.environments.suites.")])
sys.exit(code)
"""


@pytest.fixture
def seen(house, monkeypatch):
    """The ids of the processes that have imported a third party's suite, `mine`, which is Catch."""
    path = house.path / "seen"
    path.touch()
    (house.path / "theirs.py").write_text(THEIRS.format(seen=str(path)))
    install(house.path, monkeypatch, "seed_rl.environments", mine="theirs:SUITE")
    return lambda: set(map(int, path.read_text().split()))


def test_a_learner_of_a_launcher_imports_no_suite(house, seen):
    flags = ("1", "4", "--rows=6", "--replay_buffer_min_size=64", "--intra_op_threads=1")
    for _ in range(2):  # The second run resumes the first.
        before = len(house.metrics())
        run = house.start(
            "train", "mine", "dqn", *flags, "--log_period_secs=0.25", f"--logdir={house.logdir}"
        )
        learner, actor = (run.child(name).pid for name in ("learner", "actor"))
        house.wait_for_metrics(lambda line: line["updates"] > 0, run, after=before)
        run.signal(signal.SIGINT)
        assert run.end() == 130, run.output
        assert {run.pid, actor} <= seen() and learner not in seen()


def test_a_learner_that_was_started_by_hand_imports_no_suite(house, seen):
    flags = ("--environment=mine", "--rows=6", "--total_environment_frames=2000")
    for _ in range(2):  # The second one has no more to train.
        learner = house.learner(*flags, code=LEARNER)
        actor = house.only_actor() if not house.metrics() else None
        assert learner.end() == 0, learner.output
        assert learner.last_line == "[]" and learner.pid not in seen()
        if actor:
            assert actor.end() == 0 and actor.pid in seen()
    wrong = house.learner(*flags, "--row=7")
    assert wrong.end() == 2
    assert "Unknown flag --row for environment mine and agent vtrace; did you mean --rows" in wrong.last_line
