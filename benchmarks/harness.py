"""Shared by the benchmarks: options, child processes and their CPU use, runs, tables. No TensorFlow."""

import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.launch.watch import ChildEnded, Tick, Watch
from seed_rl.metrics.curves import read_periods

ROOT = Path(__file__).resolve().parents[1]

_START_TIMEOUT_SECS = 300.0  # 512 emulators take minutes on two cores.
_STOP_SECS = 90.0


def check_names(flag: str, names: str, valid: Sequence[str]) -> None:
    """Raises ValueError unless `names`, the value of `--flag`, is a comma-separated list of valid names."""
    if not set(names.split(",")) <= set(valid):
        raise ValueError(f"--{flag}={names} is not valid; choose from: {', '.join(valid)}.")


def check_counts(flag: str, counts: str) -> None:
    """Raises ValueError unless `counts`, the value of `--flag`, is a list of different numbers from 1 on."""
    if not all(re.fullmatch("[1-9][0-9]*", count) for count in counts.split(",")):
        raise ValueError(f"--{flag}={counts} is not valid; write it like 1,8,32.")
    if len(set(counts.split(","))) < len(counts.split(",")):
        raise ValueError(f"--{flag}={counts} has a number twice; name it once.")


def make_directory(flag: str, path: str) -> None:
    """Makes the directory that is the value of `--flag`, so that results are not lost at the end.

    Raises:
      UsageError: it cannot be made, or nothing can be written there.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise UsageError(
            f"--{flag}={path} cannot be used ({error.strerror}); name another directory."
        ) from None


def module_child(module: str, *args: str, log: Path, env: Mapping[str, str] | None = None) -> Child:
    """A child process that runs `python -m MODULE ARGS` of this checkout; not started yet.

    Its output goes to `log`, and `env` is added to the environment variables of this process.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", **(env or {})}
    return Child(module, [sys.executable, "-m", module, *args], log, variables)


@contextlib.contextmanager
def running(children: Sequence[Child]) -> Iterator[None]:
    """Starts the children, and kills those that still run at the end."""
    watch = Watch()
    try:
        for child in children:
            watch.start(child)
        yield
    finally:
        watch.end(children, grace_secs=0)


def wait_until(
    condition: Callable[[], bool], children: Sequence[Child], timeout_secs: float, what: str
) -> None:
    """Polls a condition, `what` in words, until it holds.

    Raises:
      RuntimeError: a child failed meanwhile.
      TimeoutError: it took too long.
    """
    deadline = time.monotonic() + timeout_secs
    for event in Watch(children):
        if condition():
            return
        match event:
            case ChildEnded(child, code) if code != 0:
                raise RuntimeError(f"{child.name} ended before {what}: {log_end(child)}")
            case Tick() if time.monotonic() > deadline:
                raise TimeoutError(f"No {what} within {timeout_secs:g} s.")


def finish(children: Sequence[Child], timeout_secs: float) -> None:
    """Waits until all children have exited with 0; see `wait_until` for the errors."""
    names = ", ".join(child.name for child in children)
    wait_until(lambda: all(c.poll() == 0 for c in children), children, timeout_secs, f"end of {names}")


def log_end(child: Child) -> str:
    """The last lines of a child's log, from a new line on."""
    assert child.log is not None
    return "\n" + "\n".join(child.log.read_text(errors="replace").splitlines()[-20:])


def result_of(
    name: str, *args: str, timeout_secs: float, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Runs a benchmark in a process of its own; returns the JSON object that it prints last.

    Raises:
      RuntimeError: it failed.
      TimeoutError: it took longer than this, plus the time that a start may take.
    """
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as directory:
        child = module_child("benchmarks", name, *args, log=Path(directory) / "log", env=env)
        with running([child]):
            finish([child], _START_TIMEOUT_SECS + timeout_secs)
        return json.loads((Path(directory) / "log").read_text().rstrip().rpartition("\n")[2])


class LocalRun:
    """A training run under `seed_rl train`, stopped with SIGTERM when the context ends.

    Attributes:
      logdir: its run directory, removed with everything else at the end.
      actor_logs: the texts of its actors' logs, once it has ended.
    """

    actor_logs: Sequence[str] = ()

    def __init__(self, run_flags: Sequence[str], begins_with: str = "updates"):
        """Prepares a run with these flags of `seed_rl train`; `--logdir` is set here.

        `begins_with` is the figure that is above 0 from when `metrics` has figures.
        """
        self._begins_with = begins_with
        self._flags = [flag for flag in run_flags if not flag.startswith("--logdir=")]

    def __enter__(self) -> "LocalRun":
        self._directory = tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_")
        directory = Path(self._directory.name)
        self.logdir = directory / "run"
        self._child = module_child(
            "seed_rl", "train", *self._flags, f"--logdir={self.logdir}", log=directory / "log"
        )
        self._child.start()
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            if self._child.running and not Watch([self._child]).end([self._child], _STOP_SECS):
                raise TimeoutError(f"The run did not end within {_STOP_SECS:g} s.")
            logs = sorted(self.logdir.glob("actor_*.log"))
            self.actor_logs = [log.read_text(errors="replace") for log in logs]
        finally:
            self._directory.cleanup()

    def wait_until(self, condition: Callable[[], bool], timeout_secs: float, what: str) -> None:
        """Like the function `wait_until`; the run must not fail meanwhile."""
        wait_until(condition, [self._child], timeout_secs, what)

    def metrics(self) -> list[dict[str, Any]]:
        """The figures so far, one dict per period; none before the first update, or what it begins with."""
        return [line for line in read_metrics(self.logdir) if line[self._begins_with] > 0]

    def memory_mib(self) -> dict[str, float]:
        """Resident memory of `learner` and each `actor N`, in MiB."""
        assert self._child.pid is not None
        found = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._child.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    command = process.cmdline()
                    names = [f"actor {arg[7:]}" for arg in command if arg.startswith("--task=")]
                    if names := ["learner"] if "learner" in command else names:
                        found[names[0]] = process.memory_info().rss / 2**20
        return dict(sorted(found.items(), key=lambda item: (item[0] != "learner", item[0])))


class SteadyRun(NamedTuple):
    """The measured part of a run: the figures of the warm-up's last period and of all later ones.

    `actor_logs` are those of `LocalRun`.
    """

    first: dict[str, Any]
    periods: list[dict[str, Any]]
    actor_logs: Sequence[str]

    @property
    def frames_per_second(self) -> float:
        """Environment frames per second between the two."""
        frames, seconds = (self.periods[-1][name] - self.first[name] for name in ("env_frames", "seconds"))
        return frames / seconds


def steady_run(
    run_flags: Sequence[str], warm_up_secs: float, seconds: float, begins_with: str = "updates"
) -> SteadyRun:
    """Runs training, lets it warm up after its first update, and measures the given number of seconds.

    `begins_with` is another figure to wait for, see `LocalRun`.
    """
    with LocalRun(run_flags, begins_with) as run:
        run.wait_until(lambda: bool(run.metrics()), _START_TIMEOUT_SECS, f"first of its {begins_with}")
        warm = run.metrics()[0]["seconds"] + warm_up_secs
        patience = warm_up_secs + seconds + 60
        run.wait_until(lambda: run.metrics()[-1]["seconds"] >= warm, patience, "end of the warm-up")
        first = run.metrics()[-1]
        end = first["seconds"] + seconds
        run.wait_until(lambda: run.metrics()[-1]["seconds"] >= end, patience, "end of the run")
        periods = [line for line in run.metrics() if line["seconds"] > first["seconds"]]
    return SteadyRun(first, periods, run.actor_logs)


def read_metrics(logdir: Path) -> list[dict[str, Any]]:
    """The figures of a run, one dict per period; empty while there are none."""
    try:
        return read_periods(logdir)
    except ValueError:
        return []


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median over rounds of each figure."""
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table in Markdown, see `markdown`."""
    print(f"\n{title}\n\n{markdown(columns, rows)}", end="", flush=True)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The lines of a table for the docs; floats are rounded: to two decimals, or to integers from 100 on."""
    body = [f"| {' | '.join(map(_cell, row))} |\n" for row in rows]
    return "".join([f"| {' | '.join(columns)} |\n", "|---" * len(columns) + "|\n", *body])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def print_result(result: Mapping[str, Any]) -> None:
    """Prints the last line: one JSON object, with numbers rounded to three decimals."""

    def rounded(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: rounded(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [rounded(item) for item in value]
        return round(value, 3) if isinstance(value, float) else value

    print()
    print(json.dumps(rounded(result)), flush=True)
