"""What the doctor says of a run, once or as long as it trains."""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from seed_rl.diagnosis.evidence import LEAST, MOST, Evidence, TooFewError, gather
from seed_rl.diagnosis.findings import diagnose
from seed_rl.messages import warn
from seed_rl.reporting.cpu import RunCpu
from seed_rl.runs import lock
from seed_rl.runs.curves import read_periods
from seed_rl.runs.record import RunRecord

# The first line says what was looked at; these follow at most.
_MOST_FINDINGS = 4

_POLL_SECS = 0.5


def report(run: RunRecord) -> list[str]:
    """About five lines: what was looked at, what bounds the run, and what else costs speed."""
    return _report(run, _periods(run), MOST)


def watch(
    run: RunRecord, say: Callable[[list[str]], object], sleep: Callable[[float], object] = time.sleep
) -> None:
    """Reports on the last few periods whenever there is a new one, until no learner trains in the directory.

    `say` takes the lines of each report; `sleep` waits for a number of seconds.
    """
    seen, cpu = -1, _Processes(sleep)
    while True:
        trains = cpu.find(run)
        periods = _periods(run, quietly=seen >= 0)
        if len(periods) != seen or not trains:
            seen = len(periods)
            say(_report(run, periods, LEAST, cpu.take()))
        if not trains:
            say(["No learner trains in this directory now."])
            return
        sleep(_POLL_SECS)


class _Processes:
    """The CPU use of a run's processes, as long as its learner is on this machine."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._pid: int | None = None
        self._cpu: RunCpu | None = None

    def find(self, run: RunRecord) -> bool:
        """Looks for the learner; returns whether there is one, here or elsewhere."""
        holder = lock.holder(run.logdir)
        is_here = holder is not None and holder.host == socket.gethostname() and holder.process.isdecimal()
        pid = int(holder.process) if holder is not None and is_here else None
        if pid != self._pid:
            self._pid, self._cpu = pid, None
            with contextlib.suppress(psutil.NoSuchProcess):
                self._cpu = None if pid is None else RunCpu(pid)
            self._sleep(_POLL_SECS)  # There is no use of CPU in no time.
        return holder is not None

    def take(self) -> dict[str, float]:
        """The figures of their CPU use since the last call; empty if they are elsewhere."""
        return {} if self._cpu is None else self._cpu.take()


def _periods(run: RunRecord, quietly: bool = False) -> list[dict[str, Any]]:
    """The run's periods; none if it has written none yet. `quietly`: without warnings, which came before."""
    try:
        return read_periods(run.logdir, warn=(lambda text: None) if quietly else warn)
    except ValueError:
        return []


def _report(
    run: RunRecord, periods: list[dict[str, Any]], most: int, cpu: Mapping[str, float] | None = None
) -> list[str]:
    settings = {**run.learner_settings, **run.agent_settings}
    try:
        evidence, last = gather(periods, settings, most)
    except TooFewError as error:
        return [f"{run.logdir}: {error}"]
    evidence = Evidence({**evidence.figures, **(cpu or {})}, settings)
    seconds = last[-1]["seconds"] - last[0]["seconds"]
    updates = (last[-1]["updates"] - last[0]["updates"]) / max(seconds, 1e-9)
    head = (
        f"{run.logdir}: {evidence.figures['frames_per_second']:,.0f} frames/s and {updates:,.1f} updates/s "
        f"in the last {len(last)} periods."
    )
    if cpu and "actor_cpu_cores" in cpu:
        head += (
            f" Now the learner uses {cpu['learner_cpu_cores']:.2f} cores and {cpu['actor_processes']:g} "
            f"actors use {cpu['actor_cpu_cores']:.2f}, of {cpu['machine_cores']:g}."
        )
    return [head, *(finding.sentence for finding in diagnose(evidence)[:_MOST_FINDINGS])]
