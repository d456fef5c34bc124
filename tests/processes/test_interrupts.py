"""SIGINT and SIGTERM end the real mains, however they were started and whatever hangs."""

import signal
import time

import pytest

pytestmark = pytest.mark.slow

# What a shell without a terminal does with `python -m seed_rl.MODULE … &`.
IGNORING_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""

HANGING = """
import pathlib, time
import gymnasium

class Hanging(gymnasium.Env):
    def __init__(self):
        pathlib.Path("hangs").touch()
        while True:  # In turns: Python handles a signal that comes just before a wait only after it.
            time.sleep(0.05)

gymnasium.register("Hanging-v0", Hanging)
"""


def start_ignoring(house, module, *args):
    return house.start(module, f"seed_rl.{module}", *args, code=IGNORING_SIGINT)


def test_learner_and_actor_that_ignored_sigint_end_at_it(house):
    learner = start_ignoring(
        house,
        "learner_main",
        *house.small,
        f"--server_address={house.address}",
        f"--logdir={house.logdir}",
        "--num_envs=16",
    )
    actor = start_ignoring(house, "actor_main", *house.actor_args(0))
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner)
    actor.signal(signal.SIGINT)
    assert actor.end() == 128 + signal.SIGINT
    assert "Traceback" not in actor.output
    learner.signal(signal.SIGINT)
    assert learner.end() == 130, learner.output
    assert "Stopped with a checkpoint" in learner.last_line


def test_a_local_run_that_ignored_sigint_ends_at_it(house):
    run = start_ignoring(
        house, "local_main", "catch", "vtrace", "2", "4", *house.small, f"--logdir={house.logdir}"
    )
    house.wait_for_metrics(lambda line: line["updates"] > 0, run)
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output
    assert run.last_line == "seed_rl: stopped; the same command resumes it."


def test_a_second_signal_ends_a_learner_at_once(house):
    (house.path / "hanging.py").write_text(HANGING)
    learner = house.start(
        "learner_main",
        "--environment=gym",
        "--game=hanging:Hanging-v0",
        "--agent=vtrace",
        f"--server_address={house.address}",
        f"--logdir={house.logdir}",
    )
    house.wait_until((house.path / "hangs").exists, lambda: f"the hang; the output is: {learner.output}")
    last = 0.0

    def ended():
        nonlocal last
        if time.monotonic() - last >= 0.25:  # Two that come together count as one.
            last = time.monotonic()
            learner.signal(signal.SIGINT)
        return not learner.running

    house.wait_until(ended, lambda: f"the learner's end; its output is: {learner.output}")
    assert learner.end() == 128 + signal.SIGINT
    assert learner.last_line == (
        "seed_rl: the learner was ended at once; the run resumes from its last complete checkpoint."
    )
