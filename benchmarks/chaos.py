"""Faults in real processes, again and again: what is trained on stays right, and everything goes on.

One run has a learner on TCP with TLS, in turn with two gateways and without, and six actors: two may share
its memory, and two are behind a proxy of this process. The other run is `seed_rl train` with two actors, in
turn with central inference and with `--inference=actor`. The environments check their actions, and the
algorithm its unrolls (`chaos_parts`). A process that was hit has to train again within two minutes. The last
line counts faults and unrolls. The exit code is 1 if anything was wrong; then the directory with the logs is
kept. Where the system allows `unshare --map-root-user --mount`, /dev/shm is full all the time, and the disk
of the learner at times.
"""

import contextlib
import ctypes
import dataclasses
import math
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil

from benchmarks.chaos_parts import DIRECTORY, NETWORK, Proxy, Run
from benchmarks.harness import ROOT, print_result, print_table
from seed_rl.flags.command_line import parse_options
from seed_rl.launch.credentials import SERVER_NAME, make_credentials
from seed_rl.options import Options, option

RECOVERY_SECS, FINAL_SECS, GONE_SECS, LONG_SECS = 120.0, 60.0, 10.0, 35.0
ACTOR_PERIOD_SECS, LONGEST_LEARNER_PERIOD_SECS = 5.5, 110.0
PROXIED = (4, 5)
SIGNALS = ("SIGKILL", "SIGTERM", "freeze")
OWN_MOUNTS = "SEED_RL_CHAOS_OWN_MOUNTS"
DISK = ("file limit", "full disk")
DISK_MIB = 64  # The size of the disk that is filled.
ON_ACTORS = [f"{who}: {what}" for who in ("actor", "gateway", "launcher's actor") for what in SIGNALS]
ON_ACTORS += [f"actor: {what}" for what in ("descriptors", *NETWORK)]
ON_LEARNERS = [f"learner: {what}" for what in (*SIGNALS, "damaged checkpoint", *DISK, "descriptors")]
ON_LEARNERS += ["launcher: SIGKILL", "launcher: SIGTERM", "launcher's learner: SIGKILL"]
GAME = ("--environment=gym", "--game=benchmarks.chaos_parts:Counting-v0")
LEARNING = (
    *(*GAME, "--agent=witness", "--batch_size=4", "--intra_op_threads=1", "--logdir=run"),
    *("--log_period_secs=2", "--save_checkpoint_secs=2", f"--total_environment_frames={10**12}"),
)

Command = Callable[[int], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class ChaosConfig(Options):
    """Settings of the campaign."""

    minutes: float = option(2.0, "Minutes with faults, about 11 on actors in each.", above=0)
    seed: int = option(1, "Seed for the order of the faults, and for whom and how they hit.", at_least=0)


class Process:
    """A command of seed_rl that is started again whenever it ends.

    Attributes:
      starts: how often it was started.
      may_end: exit codes that a fault may cause.
    """

    def __init__(self, log: Path, env: dict[str, str], command: Command):
        """Starts it; the command is a function of the number of starts before."""
        self.log, self.starts, self._command, self._env = log, 0, command, {**os.environ, **env}
        self.start()

    def start(self) -> None:
        """Starts it again."""
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "seed_rl", *self._command(self.starts)],
                cwd=self.log.parent,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,
            )
        self.system = psutil.Process(self.popen.pid)
        self.starts, self.may_end = self.starts + 1, set[int]()

    def descendant(self, *words: str) -> psutil.Process | None:
        """The process below it with these words on its command line."""
        with contextlib.suppress(psutil.Error):
            for process in self.system.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if set(words) <= set(process.cmdline()):
                        return process
        return None


@dataclasses.dataclass
class Fault:
    """A fault; `over` is the time of its end, and `secs` how long everything then took to train again."""

    kind: str
    run: Run
    tasks: Sequence[int]
    process: Process
    over: float = math.inf
    since: float = math.inf  # Unrolls that began later show that it trains.
    restarts: bool = False  # Whether the process has to start again.
    secs: float | None = None
    alone: bool = True


class Campaign:
    """Two runs, and the faults that hit them."""

    def __init__(self, directory: Path, seed: int):
        self.directory, self.random, self.violations = directory, random.Random(seed), list[str]()
        self.faults, self.samples = list[Fault](), list[tuple[str, int, float, int]]()
        self._due, self._next_sample = list[tuple[float, Fault, Callable[[], object]]](), math.inf
        info = directory / "path" / "witness-1.0.dist-info"
        info.mkdir(parents=True)
        (directory / "tmp").mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[seed_rl.algorithms]\nwitness=benchmarks.chaos_parts:Entry\n")
        self.port, secrets = _free_ports(3), make_credentials("test")
        self.proxies, self.full = {task: Proxy() for task in PROXIED}, Path()
        self.fleet, self.launched = Run(directory / "fleet", 6), Run(directory / "launched", 2)
        if os.environ[OWN_MOUNTS]:
            _mount(Path("/dev/shm"), 4096)
            _fill(Path("/dev/shm/full"))
            self.full = self.fleet.directory / "run" / "full"
            self.full.parent.mkdir()
            _mount(self.full.parent, DISK_MIB << 20)
        train = ("train", *LEARNING, "--num_actors=2", "--env_batch_size=2")
        self.launcher = self._process(
            self.launched, "launcher", {}, lambda starts: (*train, *["--inference=actor"] * (starts % 2))
        )
        self.learner = self._process(self.fleet, "learner", secrets.learner, self._learner_command)
        commands = map(self._actor_command, self.fleet.tasks)
        self.actors = [
            self._process(self.fleet, f"actor_{i}", secrets.actor, c) for i, c in enumerate(commands)
        ]
        self.processes = [self.launcher, self.learner, *self.actors]

    def _process(self, run: Run, name: str, env: dict[str, str], command: Command) -> Process:
        env = {**env, DIRECTORY: str(run.directory), "TMPDIR": str(self.directory / "tmp")}
        env |= {"PYTHONPATH": f"{ROOT}:{self.directory}/path", "PYTHONFAULTHANDLER": "1"}
        return Process(run.directory / f"{name}.log", {"OMP_NUM_THREADS": "1", **env}, command)

    def _learner_command(self, starts: int) -> Sequence[str]:
        gateways = 2 - starts % 2 * 2
        for i, proxy in enumerate(self.proxies.values(), start=1):
            proxy.target = self.port + i if gateways else self.port
        own = (f"--server_address=127.0.0.1:{self.port}", "--num_envs=12", f"--num_gateways={gateways}")
        return "learner", *LEARNING, *own

    def _actor_command(self, task: int) -> Command:
        port = self.proxies[task].port if task in self.proxies else self.port
        own = (f"--server_address=127.0.0.1:{port}", f"--tls_server_name={SERVER_NAME}", f"--task={task}")
        transport = f"--transport={'auto' if task < 2 else 'grpc'}"
        return lambda starts: ("actor", *GAME, *own, transport, "--env_batch_size=2", "--num_env_groups=2")

    def _hit(self, kind: str) -> bool:
        """Begins a fault, if it is possible now; returns whether it is."""
        who, _, what = kind.partition(": ")
        run = self.launched if who.startswith("launcher") else self.fleet
        among = PROXIED if what in (*NETWORK, "descriptors") else run.tasks[: 2 if who == "gateway" else None]
        number = self.random.choice(among)
        tasks = [number] if "actor" in who else run.tasks
        process = (
            self.actors[number] if who == "actor" else self.learner if run is self.fleet else self.launcher
        )
        words = {
            "gateway": ("gateway", f"--server_address=127.0.0.1:{self.port + 1 + number}"),
            "launcher's actor": ("actor", f"--task={number}"),
            "launcher's learner": ("learner",),
        }.get(who)
        victim = process.descendant(*words) if words else process.system
        others = [f for f in self.faults if f.secs is None and f.run is run and set(f.tasks) & set(tasks)]
        is_learners = kind in ON_LEARNERS
        alike = [
            f for f in others if (f.kind in ON_LEARNERS if is_learners else f.kind.startswith(f"{who}:"))
        ]
        if victim is None or alike or (is_learners and len(run.checkpoints.prefixes()) < 2):
            return False
        if what == "full disk" and not self.full.name:
            return False
        fault = Fault(kind, run, tasks, process, alone=not others)
        try:
            self._begin(fault, what, victim, number)
        except psutil.Error:  # It has just ended.
            return False
        for other in others:
            other.alone = False
        self.faults.append(fault)
        self._log(f"{kind} {number}")
        return True

    def _begin(self, fault: Fault, what: str, victim: psutil.Process, number: int) -> None:
        secs = LONG_SECS if self.random.random() < 0.1 else self.random.uniform(0.3, 5.0)
        end: Callable[[], object] = lambda: None  # noqa: E731
        if what == "cut":
            self.proxies[number].cut()
        elif what in NETWORK:
            self.proxies[number].fault = what
            end = lambda: setattr(self.proxies[number], "fault", "")  # noqa: E731
        elif what == "freeze":
            victim.suspend()
            end = victim.resume
        elif what == "full disk":
            _fill(self.full)
            end, secs = self.full.unlink, max(secs, 3.0)
        elif what in ("descriptors", "file limit"):
            limit, most = resource.RLIMIT_FSIZE, 1
            if what == "descriptors":
                limit, most = resource.RLIMIT_NOFILE, victim.num_fds()
                for proxy in self.proxies.values():
                    proxy.cut()
            before = victim.rlimit(limit)
            victim.rlimit(limit, (most, before[1]))
            end, secs = lambda: victim.rlimit(limit, before), max(secs, 3.0)
            fault.process.may_end |= {1, 2} if fault.process in self.actors else set()
        else:
            self._end(fault, what, victim)
        is_lasting = what in (*NETWORK[1:], "freeze", "descriptors", *DISK)
        self._due.append((time.monotonic() + secs * is_lasting, fault, end))

    def _end(self, fault: Fault, what: str, victim: psutil.Process) -> None:
        fault.restarts = victim is fault.process.system or "learner" in fault.kind
        if victim is fault.process.system:
            fault.process.may_end |= {143, -15} if what == "SIGTERM" else {-9}
        elif "learner" in fault.kind:
            fault.process.may_end.add(137)
        below = victim.children(recursive=True)
        victim.send_signal(signal.SIGTERM if what == "SIGTERM" else signal.SIGKILL)
        if what != "SIGTERM" and (left := _left(below)):
            self.violations.append(f"{fault.kind} left {left}")
        if what == "damaged checkpoint":
            newest, part = fault.run.checkpoints.prefixes()[0], self.random.choice(("index", "data*"))
            file = next(newest.parent.glob(f"{newest.name}.{part}"))
            content = bytearray(file.read_bytes())
            place = self.random.randrange(len(content))
            content[place] ^= 64
            file.write_bytes(content[: self.random.choice((place, None))])

    def _log(self, line: str) -> None:
        with open(self.directory / "faults.log", "a") as file:
            file.write(f"{time.monotonic():.2f} {line}\n")

    def _tick(self) -> None:
        """Starts what has ended, ends faults, notes who has recovered, and takes a sample."""
        time.sleep(0.05)
        for process in self.processes:
            if (code := process.popen.poll()) is not None:
                if code not in process.may_end:
                    lines = process.log.read_text(errors="replace").splitlines()[-3:]
                    self.violations.append(f"{process.log.stem} ended with {code}: {lines}")
                process.start()
                for fault in self.faults:
                    fault.since = time.monotonic() if fault.process is process else fault.since
        now = time.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            self._due.remove(entry)
            with contextlib.suppress(psutil.Error):  # It is gone.
                entry[2]()
            entry[1].over = time.monotonic()
            entry[1].since = entry[1].since if entry[1].restarts else entry[1].over
        unrecovered = [fault for fault in self.faults if fault.secs is None]
        for fault in unrecovered:
            has_saved = not fault.kind.endswith(DISK) or fault.run.saved() > fault.over
            trains = now >= fault.over and fault.run.trains(fault.tasks, fault.since) and has_saved
            if trains or now - fault.over > RECOVERY_SECS:
                fault.secs = now - fault.over
                self._log(f"{fault.kind} recovered after {fault.secs:.2f} s")
                if not trains:
                    self.violations.append(f"{fault.kind} {fault.tasks}: no recovery")
                elif fault.process in self.actors:
                    fault.process.may_end.clear()
        if not unrecovered and now > self._next_sample:
            self._next_sample = now + 1.0
            for process in self.processes[:2]:
                with contextlib.suppress(psutil.Error):
                    figures = process.system.memory_info().rss / 2**20, process.system.num_fds()
                    self.samples.append((process.log.stem, process.starts, *figures))

    def _wait(self, secs: float, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + secs
        while not condition():
            if time.monotonic() > deadline:
                self.violations.append(f"{what} took more than {secs:g} s")
                return
            self._tick()

    def _trains(self, since: float) -> bool:
        return all(run.trains(run.tasks, since) for run in (self.fleet, self.launched))

    def _shuffled(self, kinds: Sequence[str]) -> list[str]:
        return self.random.sample(kinds, len(kinds))

    def run(self, minutes: float) -> None:
        """Waits until everything trains, hits it again and again, and waits once more."""
        self._wait(RECOVERY_SECS, "the start", lambda: self._trains(0.0))
        start = self._next_sample = time.monotonic()
        periods = (ACTOR_PERIOD_SECS, min(LONGEST_LEARNER_PERIOD_SECS, 60 * minutes / (len(ON_LEARNERS) + 1)))
        due = [start + 0.5 * periods[0], start + periods[1]]
        decks: list[list[str]] = [[], []]
        while time.monotonic() < start + 60 * minutes:
            self._tick()
            for i, kinds in enumerate((ON_ACTORS, ON_LEARNERS)):
                if time.monotonic() >= due[i]:
                    decks[i] = decks[i] or self._shuffled(kinds)
                    # Those that are not possible yet come later, and others meanwhile.
                    if kind := next((k for k in (*decks[i], *self._shuffled(kinds)) if self._hit(k)), ""):
                        decks[i] = [other for other in decks[i] if other != kind]
                        due[i] += periods[i]
        most = RECOVERY_SECS + LONG_SECS
        self._wait(most, "recovery", lambda: all(fault.secs is not None for fault in self.faults))
        now = time.monotonic()
        self._wait(FINAL_SECS, "training after the last fault", lambda: self._trains(now))

    def close(self) -> None:
        """Ends everything, and finds what is left and what the processes have reported."""
        if any("/dev/shm/" in _text(Path(f"/proc/{process.pid}/maps")) for process in self._all()):
            self.violations.append("a process uses /dev/shm")
        for process in self.processes:
            process.popen.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(FINAL_SECS)
            if process.popen.returncode != 143:
                self.violations.append(f"{process.log.stem} ended with {process.popen.returncode} at last")
        left = [*_left(self._all()), *(self.directory / "tmp").iterdir()]
        self.violations += [f"left at the end: {one}" for one in left]
        for process in self._all():
            process.kill()
        if self.full.name:  # What is on the disk outlives the mount.
            disk, kept = self.full.parent, self.fleet.directory / "kept"
            shutil.copytree(disk, kept)
            subprocess.run(["umount", disk], check=True)
            kept.rename(disk)
        log = _text(self.learner.log)
        damaged = sum(fault.kind == "learner: damaged checkpoint" for fault in self.faults)
        if (found := log.count(" is damaged, and its files")) != damaged:
            self.violations.append(f"{damaged} checkpoints were damaged, and {found} found damaged")
        if (found := log.count("Resuming from ")) != self.learner.starts - 1:
            self.violations.append(
                f"the learner was started {self.learner.starts} times, and resumed {found}"
            )
        for run in (self.fleet, self.launched):
            self.violations += _text(run.directory / "violations.txt").splitlines()

    def _all(self) -> list[psutil.Process]:
        """All processes of the campaign, whatever their parents are."""
        mark, found = os.fsencode(f"{DIRECTORY}={self.directory}"), []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError, psutil.Error):
                if mark in environ.read_bytes():
                    found.append(psutil.Process(int(environ.parent.name)))
        return found


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _left(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Waits for the end of processes; returns those that still run. Nobody may reap those that have ended."""
    deadline = time.monotonic() + GONE_SECS
    while left := [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return left


def _get_own_mounts(argv: Sequence[str]) -> None:
    """Executes this benchmark again such that only it sees what it mounts, if the system allows that."""
    unshare = ("unshare", "--map-root-user", "--mount")
    if OWN_MOUNTS not in os.environ:
        attempt = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/dev/shm"], capture_output=True)
        os.environ[OWN_MOUNTS] = "" if attempt.returncode else "1"
        if not attempt.returncode:
            os.execvp(unshare[0], [*unshare, sys.executable, "-m", "benchmarks", "chaos", *argv[1:]])


def _mount(path: Path, size: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True)


def _fill(path: Path) -> None:
    """Writes a file until its disk is full."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def _text(path: Path) -> str:
    """The contents of a file; empty if it is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the system hands out."""
    while True:
        first = random.SystemRandom().randrange(12_000, 19_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def main(argv: list[str]) -> int:
    """Runs a campaign; returns 1 if anything was wrong."""
    config, _ = parse_options(argv, __doc__ or "", ChaosConfig)
    _get_own_mounts(argv)
    directory = Path(tempfile.mkdtemp(prefix="seed_rl_chaos_"))
    campaign = Campaign(directory, config.seed)
    try:
        campaign.run(config.minutes)
    finally:
        campaign.close()
    faults, rows = campaign.faults, []
    for kind, alone in sorted({(f.kind, f.alone) for f in faults}):
        secs = [f.secs for f in faults if (f.kind, f.alone) == (kind, alone) and f.secs is not None]
        rows.append(
            [
                kind + ("" if alone else ", with others"),
                len(secs),
                *np.percentile(secs, [50, 99, 100]).tolist(),
            ]
        )
    print_table("Seconds to recover", ["fault", "number", "p50", "p99", "max"], rows)
    of = {name: [s[1:] for s in campaign.samples if s[0] == name] for name in ("learner", "launcher")}
    rows = [
        [f"{name}, {when}", *s[i]] for name, s in of.items() if s for i, when in ((0, "first"), (-1, "last"))
    ]
    print_table("Without a fault", ["process", "start", "MiB", "descriptors"], rows)
    print("", *campaign.violations[:50], sep="\n")
    runs, learners = (campaign.fleet, campaign.launched), sum(f.kind in ON_LEARNERS for f in faults)
    checked, wrong = (sum(int(run.trained[i]) for run in runs) for i in (0, 1))
    result = {"faults_on_actors": len(faults) - learners, "faults_on_learners": learners}
    result |= {"unrolls_checked": checked, "wrong_unrolls": wrong, "violations": len(campaign.violations)}
    print_result({"benchmark": "chaos", "seed": config.seed, **result})
    if campaign.violations:
        print(f"The logs are in {directory}.", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    return 0
