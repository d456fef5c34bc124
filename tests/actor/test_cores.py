import os
import subprocess
import sys

import pytest

from seed_rl.actor import cores, loop
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from tests.actor.counting import DEADLINE_SECS, Learner, Player

needs_linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")

# The cores of a thread that there was, of one that comes later, and of a child.
PINNED = """
import os, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from seed_rl.actor.cores import pin, usable_cores

core = usable_cores()[-1]
threads = [ThreadPoolExecutor(1) for _ in range(2)]
threads[0].submit(int).result()
pin(core)
found = [thread.submit(os.sched_getaffinity, 0).result() for thread in threads]
child = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
print(found == [{core}] * 2, subprocess.check_output(child, text=True).strip() == str({core}))
"""


@needs_linux
def test_threads_and_children_stay_on_the_core():
    output = subprocess.check_output([sys.executable, "-c", PINNED], text=True, timeout=DEADLINE_SECS)
    assert output.split() == ["True", "True"]


@pytest.mark.parametrize(("task", "core"), [(0, 3), (1, 5), (2, 8), (3, 3), (4, 5)])
def test_tasks_take_cores_in_turn(tmp_path, monkeypatch, task, core):
    pinned = []
    monkeypatch.setattr(loop, "usable_cores", lambda: [3, 5, 8])
    monkeypatch.setattr(loop, "pin", pinned.append)
    learner = Learner(f"unix:{tmp_path}/s", num_envs=20)
    player = Player(f"unix:{tmp_path}/s", task=task, pin=True)
    learner.wait_for(1)
    learner.stop()
    assert player.finished(DEADLINE_SECS) and player.error is None
    assert pinned == [core]


def test_elsewhere_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "_THREADS", tmp_path / "none")
    with pytest.raises(ValueError, match="--pin needs Linux"):
        Actor(ActorConfig(pin=True))
    Actor(ActorConfig())
