"""Children that leave processes behind: a daemon, one in another session, a stubborn one; limits."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from seed_rl.launch.child import Child
from tests.launch.children import alive
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux: elsewhere children are not adopted"
)

# Starts three processes that would run longer, prints a line, and runs the code of the test.
_COMMAND = """
import os, signal, subprocess, sys, time
from pathlib import Path
sleep = [sys.executable, "-c", "import time; time.sleep(3600)"]
started = [os.getpid(), subprocess.Popen(sleep).pid]
started.append(subprocess.Popen(sleep, start_new_session=True, env={{}}).pid)
daemon = "import os, subprocess, sys; os.setsid(); print(subprocess.Popen(sys.argv[1:], stdout=2).pid)"
started.append(int(subprocess.run([sys.executable, "-c", daemon, *sleep], stdout=subprocess.PIPE).stdout))
Path("part").write_text(" ".join(map(str, started)))
Path("part").rename("started")
{then}
"""
WAIT = "while True: time.sleep(0.05)"


def command(then):
    return [sys.executable, "-c", _COMMAND.format(then=then)]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a child that does something after it has started others."""
    monkeypatch.chdir(tmp_path)
    children = []

    def start_child(then):
        children.append(Child("child", command(then), tmp_path / "log"))
        children[-1].start()
        return children[-1], started(children[-1])

    yield start_child
    for child in children:
        child.kill()


def started(child=None):
    """The process ids of the command and of what it has started, in the current directory."""
    wait_until(Path("started").exists, lambda: f"the start: {child and child.last_line()}")
    return list(map(int, Path("started").read_text().split()))


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGUSR1)", -signal.SIGUSR1),
    ],
)
def test_a_child_that_ends_leaves_nothing_and_its_exit_code_is_its_own(start, then, code):
    child, pids = start(then)
    wait_until(lambda: child.poll() is not None, "the end")
    assert child.poll() == code
    assert not any(map(alive, pids))


@pytest.mark.parametrize("before", [None, signal.SIGSTOP])
def test_kill_leaves_nothing(start, before):
    child, pids = start(f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAIT}")
    assert child.pid == pids[0]
    if before:
        os.kill(child.pid, before)
    child.kill()
    assert child.poll() == -signal.SIGKILL and not child.running
    assert not any(map(alive, pids))
    child.kill()  # There is nothing left, and no other group is touched.
    child.terminate()


def test_terminate_reaches_the_command(start):
    child, pids = start(f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n{WAIT}")
    child.terminate()
    wait_until(lambda: child.poll() is not None, "the end")
    assert child.poll() == 5
    assert not any(map(alive, pids))


def test_a_reaper_that_is_killed_takes_its_command_along(start):
    child, pids = start(WAIT)
    psutil.Process(pids[0]).parent().kill()
    wait_until(lambda: not alive(pids[0]), "the end of the command")
    wait_until(lambda: child.poll() is not None, "the end")
    child.kill()
    wait_until(lambda: not any(map(alive, pids[:2])), "the end of its group")
    for pid in filter(alive, pids):  # Nobody has adopted these.
        os.kill(pid, signal.SIGKILL)


LAUNCHER = """
import pathlib, sys, time
from seed_rl.launch.child import Child
pathlib.Path("private").mkdir(exist_ok=True)
Child("child", sys.argv[1:], pathlib.Path("log"), private=pathlib.Path("private")).start()
time.sleep(3600)
"""


@pytest.mark.parametrize("nested", [1, 2])
def test_a_launcher_that_is_killed_leaves_neither_processes_nor_its_private_directory(
    tmp_path, monkeypatch, nested
):
    """Also a launcher under a launcher, as under a sweep."""
    monkeypatch.chdir(tmp_path)
    code = [*[sys.executable, "-c", LAUNCHER] * nested, *command(WAIT)]
    launcher = subprocess.Popen(code, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        pids = started()
        pids += [process.pid for process in psutil.Process(launcher.pid).children(recursive=True)]
    finally:
        launcher.kill()
        launcher.wait()
    wait_until(lambda: not any(map(alive, pids)), lambda: f"the end of {list(filter(alive, pids))}")
    wait_until(lambda: not Path("private").exists(), "no private directory", seconds=60)


LIMIT = """
import resource
from seed_rl.launch.child import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 300))
raise_descriptor_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize("soft", [100, 300])
def test_the_soft_limit_on_open_files_becomes_the_hard_one(soft):
    command = [sys.executable, "-c", LIMIT.format(soft=soft)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["300", "300"], done.stderr


@pytest.mark.parametrize("command", ["learner", "gateway"])
@pytest.mark.parametrize("limit", [24, 63])
def test_a_hard_limit_on_open_files_that_is_too_low_is_one_sentence(command, limit):
    done = subprocess.run(
        [sys.executable, "-m", "seed_rl", command],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"seed_rl: error: This process may have {limit} open files; raise")
    assert done.stderr.count("\n") == 1
