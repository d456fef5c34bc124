"""CPU use of the processes of a run on this machine. No TensorFlow."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_LAUNCHER, _LEARNER, _ACTOR = "seed_rl.local_main", "seed_rl.learner_main", "seed_rl.actor_main"
_GATEWAY = "seed_rl.gateway_main"
_TETHER = "seed_rl/launch/tether.py"


class CpuUse:
    """Measures the cores that processes keep busy, by name."""

    def __init__(self, pids: Mapping[str, int]):
        """Starts counting; `pids` by name."""
        self._spent: dict[tuple[str, int], float] = {}
        self._since = time.monotonic()
        self.watch(pids)

    def watch(self, pids: Mapping[str, int]) -> None:
        """Replaces the processes, by name. Those that are new count from now on."""
        spent = {(name, pid): _cpu_seconds(pid) for name, pid in pids.items()}
        self._spent = {
            key: self._spent.get(key, seconds) for key, seconds in spent.items() if seconds is not None
        }

    def take(self) -> dict[str, float]:
        """The average number of cores that each process has kept busy since the last call, or the start.

        Processes that have ended are left out.
        """
        now = time.monotonic()
        elapsed, self._since = max(now - self._since, 1e-9), now
        found: dict[str, float] = {}
        for (name, pid), before in list(self._spent.items()):
            seconds = _cpu_seconds(pid)
            if seconds is None:
                del self._spent[name, pid]
                continue
            self._spent[name, pid] = seconds
            found[name] = (seconds - before) / elapsed
        return found


class RunCpu:
    """Measures a learner, its gateways, and its actors if they are children of the same local launcher."""

    def __init__(self, learner: int | None = None):
        """Starts counting; `learner` is the learner's process, by default this one."""
        self._learner = os.getpid() if learner is None else learner
        self._use = CpuUse({})
        self._num_learners = 1
        self._watch()
        self._machine = _machine_seconds()

    def take(self) -> dict[str, float]:
        """Figures since the last call, or the start.

        `learner_cpu_cores`; `gateway_cpu_cores`, of all its gateways, if it has any; `actor_processes` and
        `actor_cpu_cores`, with what the actors have started, if they are found; `machine_cores`, how many
        there are for this process, and `machine_cpu_cores`, those in use by anything, unless this process may
        use only a part of the machine. Actors of several learners under one launcher count in equal parts.
        """
        used = self._use.take()
        figures = {"learner_cpu_cores": used.pop(_LEARNER, 0.0), "machine_cores": available_cores()}
        actors: dict[str, float] = {}  # By process.
        for name, cores in used.items():
            actor = name.split("/")[0]
            if actor == _GATEWAY:
                figures["gateway_cpu_cores"] = figures.get("gateway_cpu_cores", 0.0) + cores
                continue
            actors[actor] = actors.get(actor, 0.0) + cores
        if actors:
            figures["actor_processes"] = len(actors) / self._num_learners
            figures["actor_cpu_cores"] = sum(actors.values()) / self._num_learners
        before, self._machine = self._machine, _machine_seconds()
        if figures["machine_cores"] == psutil.cpu_count() and self._machine.total > before.total:
            share = (self._machine.busy - before.busy) / (self._machine.total - before.total)
            figures["machine_cpu_cores"] = share * figures["machine_cores"]
        self._watch()
        return figures

    def _watch(self) -> None:
        """Finds the processes; all that an actor has started belongs to it."""
        pids, commands = {_LEARNER: self._learner}, _siblings(self._learner)
        gateways = (child for child in _children(self._learner) if _GATEWAY in _command(child))
        pids |= {f"{_GATEWAY}/{gateway.pid}": gateway.pid for gateway in gateways}
        self._num_learners = max(1, sum(_LEARNER in command for command in commands.values()))
        for actor, command in commands.items():
            if _ACTOR in command:
                started = (actor, *_started_by(actor))
                pids |= {f"{actor.pid}/{process.pid}": process.pid for process in started}
        self._use.watch(pids)


def _siblings(learner: int) -> dict[psutil.Process, list[str]]:
    """The command lines of all children of the local launcher of a learner, if it has one."""
    try:
        launcher = psutil.Process(learner).parent()
        if launcher is not None and _is_tether(launcher):
            launcher = launcher.parent()
        if launcher is None or _LAUNCHER not in launcher.cmdline():
            return {}
        return {child: _command(child) for child in _children(launcher.pid)}
    except psutil.Error:
        return {}


def _children(pid: int) -> list[psutil.Process]:
    """The commands that a process has started, not the tethers between it and them (`launch.tether`)."""
    try:
        return [
            command
            for child in psutil.Process(pid).children()
            for command in (child.children() if _is_tether(child) else (child,))
        ]
    except psutil.Error:
        return []


def _is_tether(process: psutil.Process) -> bool:
    return any(argument.endswith(_TETHER) for argument in _command(process))


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # It has just ended.
        return []


def _started_by(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


class _Machine(NamedTuple):
    """Seconds of all of the machine's cores together."""

    busy: float
    total: float


def _machine_seconds() -> _Machine:
    times = psutil.cpu_times()
    # On Linux, guests' time is also part of user and nice.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return _Machine(total - times.idle - getattr(times, "iowait", 0.0), total)


def _cpu_seconds(pid: int) -> float | None:
    """CPU time that a process has used; None if it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return times.user + times.system


def available_cores() -> float:
    """Cores that this process may use: the machine's, or fewer by its affinity or its container's limit."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # Not in such a container, or "max".
        return cores
