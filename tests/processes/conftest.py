"""Real learner, actor and launcher processes on unix sockets in temporary directories with short paths."""

import collections
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from seed_rl.metrics.progress import is_stage
from tests.waiting import DEADLINE_SECS, wait_until

ROOT = Path(__file__).resolve().parents[2]

# Small enough to start and train fast, and the same wherever a run is resumed.
SMALL = (
    "--environment=catch",
    "--agent=vtrace",
    "--lstm_size=0",
    "--unroll_length=10",
    "--batch_size=4",
    "--total_environment_frames=1000000000",
    "--intra_op_threads=1",
    "--log_period_secs=0.25",
)

# All environments wait for one another, so that no run can end before each of its actors has played. An actor
# that comes later than that finds no learner.
ALL_PLAY = ("--agent=ppo", "--epochs=1")


class Process:
    """`seed_rl COMMAND`, or `python -c CODE`, with its output in a file."""

    def __init__(self, output: Path, module: str, args, code: str | None = None):
        self._output = output
        self.name = module
        start = ["-c", code] if code else ["-m", "seed_rl", module]
        with open(output, "wb") as file:
            self._popen = subprocess.Popen(
                [sys.executable, *start, *map(str, args)],
                cwd=output.parent,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def said(self) -> list[str]:
        """The lines of the output, without those that only name a stage of the start."""
        return [line for line in self.output.splitlines() if not is_stage(line)]

    @property
    def last_line(self) -> str:
        return (self.output.strip().splitlines() or [""])[-1]

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self._popen.pid).children(recursive=True) if self.running else []

    def child(self, argument: str) -> psutil.Process:
        """The running child process with this argument on its command line."""
        return wait_until(
            lambda: next((p for p in self.children() if argument in _command_line(p)), None),
            lambda: f"a child with {argument}; the output is: {self.output}",
        )

    def wait_for(self, text: str, seconds: float = DEADLINE_SECS) -> None:
        """Waits until the output contains `text`."""
        wait_until(
            lambda: text in self.output or not self.running,
            lambda: f"{text!r} in: {self.output}",
            seconds,
        )
        assert text in self.output

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def end(self, seconds: float = DEADLINE_SECS) -> int:
        """Waits for the process to end on its own; returns its exit code."""
        ended = f"{self.name} to end; its output is: "
        wait_until(lambda: not self.running, lambda: ended + self.output, seconds)
        return self._popen.returncode

    def kill(self) -> None:
        """Kills it and all of its children, whatever state they are in."""
        for process in self.children():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        if self.running:
            self._popen.kill()
        self._popen.wait()


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _mapped(process: Process | psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/maps").read_text()


class House:
    """A temporary directory, the processes started in it, and the contents of its run directory."""

    wait_until = staticmethod(wait_until)
    small = SMALL
    all_play = ALL_PLAY

    def __init__(self, path: Path):
        self.path = path
        self.address = f"unix:{path}/s"
        self.logdir = path / "run"
        self._processes: list[Process] = []

    def start(self, module: str, *args, code: str | None = None) -> Process:
        output = self.path / f"{len(self._processes)}_{module}.txt"
        self._processes.append(Process(output, module, args, code))
        return self._processes[-1]

    def learner(self, *args, code: str | None = None) -> Process:
        """Starts a learner with the small settings; later arguments win."""
        return self.start("learner", *self.learner_args(), *args, code=code)

    def learner_args(self) -> list[str]:
        address, logdir = f"--server_address={self.address}", f"--logdir={self.logdir}"
        return [*SMALL, address, logdir, "--num_envs=16"]

    def actor(self, *args) -> Process:
        """Starts an actor with four environments; later arguments win."""
        return self.start("actor", *self.actor_args(), *args)

    def only_actor(self) -> Process:
        """Starts one actor with all environments, so that even a short run cannot end before it is there."""
        return self.actor("--env_batch_size=16", "--num_env_groups=4")

    def actor_args(self) -> list[str]:
        return [f"--server_address={self.address}", "--env_batch_size=4"]

    @staticmethod
    def shares_memory(process: Process | psutil.Process) -> bool:
        """Whether it shares memory with a learner or an actor, and so is connected; on Linux only."""
        return "memfd:seed_rl" in _mapped(process)

    @staticmethod
    def leaves_memory(process: Process | psutil.Process) -> bool:
        """Whether it has memory with a name, which would be left if it were killed; on Linux only.

        The files in /dev/shm are no evidence: other processes of this machine use that directory, too.
        """
        return "/dev/shm/" in _mapped(process)

    def metrics(self) -> list[dict]:
        """The complete lines of metrics.jsonl."""
        path = self.logdir / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_for_metrics(self, condition, learner: Process, after: int = 0) -> dict:
        """The first line of metrics, not counting the first `after`, that satisfies `condition`."""

        def look():
            assert learner.running or any(map(condition, self.metrics()[after:])), learner.output
            return next(filter(condition, self.metrics()[after:]), None)

        return wait_until(look, lambda: f"a line of metrics; the last is {self.metrics()[-1:]}")

    def wait_for_progress(self, learner: Process) -> None:
        """Waits until steps and updates have gone on from now."""
        count = len(self.metrics())
        now = self.wait_for_metrics(lambda line: True, learner, after=count)
        self.wait_for_metrics(
            lambda line: line["env_frames"] > now["env_frames"] and line["updates"] > now["updates"],
            learner,
            after=count + 1,
        )

    def wait_until_gone(self, processes: list[psutil.Process]) -> None:
        self.wait_until(
            lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes),
            lambda: f"the end of {processes}",
            seconds=5,
        )

    def wait_for_checkpoint(self, run: Process) -> None:
        """Waits for a first checkpoint in the run directory, which `run` must leave before its end."""

        def look():
            found = list(self.logdir.glob("checkpoints/ckpt-*.index"))
            assert found or run.running, run.output
            return found

        wait_until(look, lambda: f"a checkpoint: {run.output}")

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        shutil.rmtree(self.path, ignore_errors=True)


@pytest.fixture(scope="session")
def open_house():
    """Makes houses (temporary directories with processes) that are closed at the end of the session."""
    houses = []

    def open_one() -> House:
        houses.append(House(Path(tempfile.mkdtemp(prefix="sr_", dir="/tmp"))))
        return houses[-1]

    yield open_one
    for house in houses:
        house.close()


@pytest.fixture
def house(open_house):
    """A house for one test."""
    found = open_house()
    yield found
    found.close()


@pytest.fixture
def goes_on(playing):
    """Checks after the test that a module's `playing` learner and its actors go on with steps and updates."""
    yield
    playing.wait_for_progress(playing.live)
    assert all(actor.running for actor in playing.actors)
    assert "Traceback" not in playing.live.output


FinishedRun = collections.namedtuple("FinishedRun", "house exit_code output")


@pytest.fixture(scope="session")
def finished_run(open_house, tmp_path_factory, worker_id):
    """A complete run of Catch by the launcher with its preset, but fewer frames.

    It is trained once, whatever the number of pytest's worker processes; each of them gets its own copy.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "finished_run"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Held until the file is closed, or the process ends.
        if not (shared / "exit_code").exists():
            _train(open_house(), shared)
    house = open_house()
    shutil.copytree(shared / "run", house.logdir)
    return FinishedRun(house, int((shared / "exit_code").read_text()), (shared / "output").read_text())


def _train(house: House, shared: Path) -> None:
    """Trains, and puts the run directory, the output and, last of all, the exit code into `shared`."""
    run = house.start(
        "train", "catch", "vtrace", f"--logdir={house.logdir}", "--total_environment_frames=120000"
    )
    exit_code = run.end(seconds=280)
    assert house.logdir.is_dir(), run.output
    shutil.copytree(house.logdir, shared / "run", dirs_exist_ok=True)
    (shared / "output").write_text(run.output)
    (shared / "exit_code").write_text(str(exit_code))
    house.close()
