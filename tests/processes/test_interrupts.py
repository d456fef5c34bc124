"""SIGINT and SIGTERM end the real mains, however they were started and whatever hangs."""

import signal
import time

import pytest

pytestmark = pytest.mark.slow

# Treatment by a shell without a terminal of `python -m seed_rl COMMAND … &`.
IGNORING_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""

# Even where the tests run under nohup.
IN_A_TERMINAL = IGNORING_SIGINT.replace("SIGINT, signal.SIG_IGN", "SIGHUP, signal.SIG_DFL")

UNDER_NOHUP = IGNORING_SIGINT.replace("SIGINT", "SIGHUP")

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


@pytest.mark.parametrize(
    ("code", "number"),
    [(IGNORING_SIGINT, signal.SIGINT), (IN_A_TERMINAL, signal.SIGHUP)],
    ids=["SIGINT", "SIGHUP"],
)
def test_learner_actor_and_gateway_end_at_a_signal_however_they_were_started(house, code, number):
    def start(module, *args):
        return house.start(module, "seed_rl", module, *args, code=code)

    learner = start("learner", *house.learner_args())
    actors = [start("actor", *house.actor_args()) for _ in range(4)]
    gateway = start("gateway", f"--server_address=unix:{house.path}/g", f"--learner_address={house.address}")
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner)
    house.wait_until((house.path / "g").exists, lambda: f"the gateway: {gateway.output}")
    for process in (gateway, actors[0], learner):
        process.signal(number)
        assert process.end() == 128 + number, process.output
        assert "Traceback" not in process.output
    assert "Stopped with a checkpoint" in learner.last_line


@pytest.mark.parametrize("module", ["learner", "train"])
def test_under_nohup_a_run_outlives_its_terminal(house, module):
    """SIGHUP is ignored at the start, and changes nothing: the run ends at SIGTERM, with its exit code."""
    args = house.learner_args() if module == "learner" else ["catch", "vtrace", "4", "4", *house.small]
    run = house.start(module, "seed_rl", module, *args, f"--logdir={house.logdir}", code=UNDER_NOHUP)
    if module == "learner":
        for _ in range(4):
            house.actor()
    house.wait_for_metrics(lambda line: line["updates"] > 0, run)
    run.signal(signal.SIGHUP)
    seen = len(house.metrics())
    house.wait_for_metrics(lambda line: line["updates"] > 0, run, after=seen + 1)
    run.signal(signal.SIGTERM)
    assert run.end() == 143, run.output


def test_a_second_signal_ends_a_learner_at_once(house):
    (house.path / "hanging.py").write_text(HANGING)
    learner = house.start(
        "learner",
        "--environment=gym",
        "--game=hanging:Hanging-v0",
        "--agent=vtrace",
        f"--server_address={house.address}",
        f"--logdir={house.logdir}",
    )

    def hangs():
        return (house.path / "hangs").exists() and "Importing TensorFlow" in learner.output

    # Before the import, the first signal ends it; during it, only the second one can.
    house.wait_until(hangs, lambda: f"the hang; the output is: {learner.output}")
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
