"""CPU use of a run: the cores that its processes keep busy, and the machine's processor. No TensorFlow."""

import contextlib
import os
import platform
from pathlib import Path

import psutil

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_CPU_INFO = Path("/proc/cpuinfo")
_KINDS = {"family": "cpu family", "model": "model"}
# The sets of instructions by which the speed of networks differs most.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
# Those for bfloat16, the faster ones first.
_OF_BFLOAT16 = ("amx_bf16", "avx512_bf16")
_LAUNCHER, _LEARNER, _GATEWAY = "train", "learner", "gateway"
_ACTORS = {"actor", "policy_actor"}
_REAPER = "seed_rl/launch/reaper.py"

# A process has ended, or this one may open no more files.
_UNREADABLE = (psutil.Error, OSError)


class RunCpu:
    """Measures a learner, its gateways, and its actors if they are children of the same local launcher."""

    def __init__(self, learner: int | None = None):
        """Starts counting; `learner` is the learner's process, by default this one.

        Raises:
          psutil.NoSuchProcess: it has ended.
        """
        self._learner = psutil.Process(learner)
        self._num_learners = 1
        self._names: dict[psutil.Process, str] = {}  # "actor PID" for all of an actor's.
        self._find()
        _busy_share()  # It measures from one call to the next.

    def take(self) -> dict[str, float]:
        """Metrics since the last call, or the start.

        `learner_cpu_cores`; `gateway_cpu_cores`, of all its gateways, if it has any; `actor_processes` and
        `actor_cpu_cores`, with what the actors have started, if they are found; `machine_cores`, how many
        there are for this process, and `machine_cpu_cores`, those in use by anything, unless this process may
        use only a part of the machine. Actors of several learners under one launcher count in equal parts.
        """
        used: dict[str, float] = {}
        for process, name in self._names.items():
            with contextlib.suppress(*_UNREADABLE):  # It has ended.
                used[name] = used.get(name, 0.0) + process.cpu_percent() / 100
        metrics = {"learner_cpu_cores": used.pop(_LEARNER, 0.0), "machine_cores": available_cores()}
        if _GATEWAY in used:
            metrics["gateway_cpu_cores"] = used.pop(_GATEWAY)
        if used:
            metrics["actor_processes"] = len(used) / self._num_learners
            metrics["actor_cpu_cores"] = sum(used.values()) / self._num_learners
        busy_share = _busy_share()
        if busy_share is not None and metrics["machine_cores"] == psutil.cpu_count():
            metrics["machine_cpu_cores"] = busy_share * metrics["machine_cores"]
        self._find()
        return metrics

    def _find(self) -> None:
        """Finds the processes; all that an actor has started belongs to it. New ones count from now on."""
        found = {self._learner: _LEARNER}
        found |= {child: _GATEWAY for child in _children(self._learner) if _GATEWAY in _command(child)}
        siblings = {child: _command(child) for child in _children(_launcher(self._learner))}
        self._num_learners = max(1, sum(_LEARNER in command for command in siblings.values()))
        for actor, command in siblings.items():
            if not _ACTORS.isdisjoint(command):
                with contextlib.suppress(*_UNREADABLE):
                    found |= dict.fromkeys((actor, *actor.children(recursive=True)), f"actor {actor.pid}")
        for process in found.keys() - self._names.keys():
            with contextlib.suppress(*_UNREADABLE):
                process.cpu_percent()
        # The objects that are known already stay: each measures from its own last call.
        self._names = {p: name for p, name in (self._names | found).items() if p in found}


def _busy_share() -> float | None:
    """The share of the machine's cores in use since the last call; None if it cannot be read."""
    with contextlib.suppress(OSError):
        return psutil.cpu_percent() / 100
    return None


def _launcher(learner: psutil.Process) -> psutil.Process | None:
    """The local launcher of a learner, if it has one."""
    with contextlib.suppress(*_UNREADABLE):
        parent = learner.parent()
        launcher = parent.parent() if parent is not None and _is_reaper(parent) else parent
        if launcher is not None and _LAUNCHER in _command(launcher):
            return launcher
    return None


def _children(parent: psutil.Process | None) -> list[psutil.Process]:
    """The commands that a process has started, not the reapers between it and them (`launch.reaper`)."""
    with contextlib.suppress(*_UNREADABLE):
        children = [] if parent is None else parent.children()
        return [c for child in children for c in (child.children() if _is_reaper(child) else (child,))]
    return []


def _is_reaper(process: psutil.Process) -> bool:
    return any(argument.endswith(_REAPER) for argument in _command(process))


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(*_UNREADABLE):  # It has just ended.
        return process.cmdline()
    return []


def processor() -> str:
    """This machine's processor: its name, cores, family, model, and the instructions that matter most.

    Processors of one name may differ by a factor of two. Empty where Linux does not report it.
    """
    found = _cpu_info()
    if not found:
        return ""
    flags = _flags(found)
    kind = " ".join(f"{name} {found[key]}" for name, key in _KINDS.items() if key in found)
    number = available_cores()
    cores = f"{number:g} core{'s' * (number != 1)}"
    parts = (kind, cores, *(name for name in _INSTRUCTIONS if name in flags))
    return f"{found.get('model name', platform.machine())} ({', '.join(filter(None, parts))})"


def bfloat16_instructions() -> str | None:
    """The processor's fastest instructions for bfloat16, as Linux calls them; None without any."""
    flags = _flags(_cpu_info())
    return next((name for name in _OF_BFLOAT16 if name in flags), None)


def _cpu_info() -> dict[str, str]:
    """Linux's report on the first core; empty where there is none."""
    try:
        lines = _CPU_INFO.read_text().partition("\n\n")[0].splitlines()
    except (OSError, ValueError):
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _flags(info: dict[str, str]) -> list[str]:
    return info.get("flags", info.get("Features", "")).split()


def available_cores() -> float:
    """Cores that this process may use: the machine's, or fewer by its affinity or its container's limit."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # Not in such a container, or "max".
        return cores
