"""Runs of the supervisor with tiny children, each in a real process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.children import alive, command
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0

# A process that supervises the given children, as `seed_rl train` does.
_SUPERVISE = """
import json, signal, sys
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # As in a terminal, even where the tests run under nohup.
from seed_rl.launch.child import Child
from seed_rl.launch.run import supervise
from seed_rl.launch.watch import Timing
first, others, actors, logdir, timing = json.loads(sys.argv[1])
def children(name, commands, start):
    return [
        Child(f"{name} {i}", c, Path(logdir) / f"{name}_{i}.log", plays=True)
        for i, c in enumerate(commands, start=start)
    ]
first = Child("learner 0" if others else "the learner", first, plays=True)
learners = [first, *children("learner", others, 1)]
sys.exit(supervise(learners, children("actor", actors, 0), Timing(**timing)))
"""

# Children end as ours do; os._exit ends as anybody else's code may.
_REPORTS = """
from seed_rl.messages import COMPLETE, EPISODE, REFUSED, report_to_launcher
def end(code, exit=sys.exit):
    if code in (0, 2):
        report_to_launcher({0: COMPLETE, 2: REFUSED}[code])
    exit(code)
sys.exit = end
"""

TIMING = {
    "poll": 0.02,
    "checkpoint_grace": 30.0,
    "finish_grace": 0.3,
    "terminate_grace": 0.3,
    "verdict_grace": 0.3,
    "first_backoff": 0.05,
    "same_signal": 0.0,
}


class Run:
    """A supervisor process with a learner, or several, and actors, each given as Python code."""

    alive = staticmethod(alive)
    wait_until = staticmethod(wait_until)

    def __init__(self, directory, learner, actors, others=(), stdout=subprocess.PIPE, **timing):
        self.directory = directory

        def commanded(name, code):
            return command(directory, name, f"{_REPORTS}{code}\nsys.exit(0)")

        more = [commanded(f"learner{i}", code) for i, code in enumerate(others, start=1)]
        commands = [commanded(f"actor{i}", code) for i, code in enumerate(actors)]
        everything = commanded("learner", learner), more, commands, str(directory), {**TIMING, **timing}
        arguments = json.dumps(everything)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISE, arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def pid(self, name, start=1):
        """The process id of a child's start number `start`; waits for that start."""
        path = self.directory / f"{name}.start.{start}"
        wait_until(path.exists, f"start {start} of {name}")
        return int(path.read_text())

    def pids(self):
        return [int(path.read_text()) for path in self.directory.glob("*.start.*")]

    def wait_for_file(self, name):
        wait_until((self.directory / name).exists, name)

    def wait_for_line(self, beginning):
        """Reads the output up to a line that starts with `seed_rl: ` and `beginning`."""
        for line in self.process.stdout:
            if line.startswith(f"seed_rl: {beginning}"):
                return
        raise AssertionError(f"the run ended without {beginning!r}")

    def signal(self, signum):
        self.process.send_signal(signum)

    def end(self, begin=None):
        """Begins the end by a signal, or a file that children wait for, if it is given, and waits for it.

        Returns (exit code, output). No child may be left.
        """
        if isinstance(begin, str):
            (self.directory / begin).touch()
        elif begin is not None:
            self.signal(begin)
        output, _ = self.process.communicate(timeout=DEADLINE)
        assert [pid for pid in self.pids() if alive(pid)] == []
        return self.process.returncode, output

    def log(self, actor):
        return (self.directory / f"actor_{actor}.log").read_text()


@pytest.fixture
def start(tmp_path):
    runs = []

    def start_run(learner, *actors, **settings):
        runs.append(Run(tmp_path, learner, actors, **settings))
        return runs[-1]

    yield start_run
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate()
        for pid in run.pids():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
