"""CPU use of real processes, busy and waiting ones."""

import contextlib
import os
import resource
import subprocess
import sys

import psutil
import pytest

from seed_rl.metrics import cpu
from seed_rl.metrics.cpu import RunCpu
from seed_rl.metrics.run import RunMetrics
from tests.waiting import wait_until

BUSY = "while True: pass"
IDLE = "input()"

# A launcher with this many learners and actors, as far as their command lines show; actors are busy.
LAUNCHER = f"""
import subprocess, sys
learners, actors = map(int, sys.argv[2:])
start = lambda name, code: subprocess.Popen([sys.executable, "-c", code, name], stdin=subprocess.PIPE)
children = [start("learner", {IDLE!r}) for _ in range(learners)]
children += [start("actor", {BUSY!r}) for _ in range(actors)]
print(*(child.pid for child in children), flush=True)
input()
"""


@pytest.fixture
def start():
    """Starts processes of Python code, which are killed with all that they have started."""
    started = []

    def start_one(code, *args):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", code, *args], **pipes))
        return started[-1]

    yield start_one
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.communicate()


@pytest.mark.parametrize("learners", [1, 2])
def test_actors_are_the_learners_siblings_under_a_launcher(start, learners):
    launcher = start(LAUNCHER, "train", str(learners), "2")
    pids = list(map(int, launcher.stdout.readline().split()))
    use = RunCpu(pids[0])

    def busy():
        taken = use.take()
        return taken.get("actor_cpu_cores", 0.0) > 0.1 / learners and taken

    taken = wait_until(busy, "busy actors")
    assert taken["actor_processes"] == 2 / learners  # Each learner's part.
    wait_until(lambda: use.take()["learner_cpu_cores"] < 0.05, "a learner that waits")
    for pid in pids[-2:]:
        psutil.Process(pid).kill()
    wait_until(lambda: "actor_processes" not in use.take(), "actors that are gone")


def test_gateways_are_the_learners_children(start):
    learner = start(LAUNCHER.replace("actor", "gateway"), "learner", "0", "2")
    learner.stdout.readline()
    use = RunCpu(learner.pid)
    metrics = {}

    def is_busy():
        metrics.update(use.take())
        return metrics["gateway_cpu_cores"] > 0.1

    wait_until(is_busy, "busy gateways")
    assert metrics["learner_cpu_cores"] < 0.1 and "actor_cpu_cores" not in metrics


def test_the_cores_of_a_container_are_those_it_may_use(tmp_path, monkeypatch):
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(cpu, "_CGROUP_LIMIT", limit)
    all_cores = cpu.available_cores()
    assert all_cores >= 1
    limit.write_text("max 100000\n")
    assert cpu.available_cores() == all_cores
    limit.write_text("50000 100000\n")
    assert cpu.available_cores() == 0.5
    assert "machine_cpu_cores" not in RunCpu().take()  # Other processes' use is not in this part.


def test_the_machines_use_is_at_most_all_of_it(monkeypatch):
    monkeypatch.setattr(cpu, "available_cores", lambda: float(psutil.cpu_count()))
    use = RunCpu()
    taken = wait_until(lambda: (t := use.take()).get("machine_cpu_cores", 0.0) > 0.0 and t, "some use")
    assert taken["machine_cpu_cores"] <= taken["machine_cores"]


def test_a_learner_alone_has_no_actors_and_one_that_has_ended_uses_nothing(start):
    """Whatever else its parent has started."""
    assert RunCpu(os.getpid()).take().keys() <= {"learner_cpu_cores", "machine_cores", "machine_cpu_cores"}
    process = start(IDLE)
    use = RunCpu(process.pid)
    process.kill()
    process.wait()
    assert use.take()["learner_cpu_cores"] == 0.0


def test_a_process_that_may_open_no_more_files_goes_on_without_new_figures():
    """A regression: the learner ended when a period did."""
    use, run = RunCpu(), RunMetrics(1, 0, 0.0, 0, 1, 1)
    before = run.take(0, 0)["learner_memory_mib"]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        taken = use.take() | run.take(0, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert taken["learner_memory_mib"] == before > 10
    assert taken["learner_cpu_cores"] == 0 and "machine_cpu_cores" not in taken
    assert use.take()["machine_cores"] > 0
