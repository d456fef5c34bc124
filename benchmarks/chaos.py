"""Faults: processes and connections of two runs are ended, frozen, starved and garbled, again and again.

One run has a learner on TCP with TLS, with two gateways and without in turn, and six actors: two share memory
with it, and of the four others two are behind a proxy of this process. The other run is `seed_rl train` with
two actors. Their environments check each action, and their algorithm each unroll (`chaos_game`). Everything
that is hit has to train again within two minutes. The last line counts faults and unrolls. The exit code is 1
if anything was wrong; then the directory with the logs is kept.
"""

import contextlib
import ctypes
import dataclasses
import json
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
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from benchmarks.chaos_game import DIRECTORY, GAME, MOST_TASKS
from benchmarks.harness import ROOT, print_result, print_table
from seed_rl.flags.command_line import parse_options
from seed_rl.launch.credentials import SERVER_NAME, make_credentials
from seed_rl.options import Options, option
from seed_rl.runs.layout import RunDirectory

RECOVERY_SECS, FINAL_SECS, GONE_SECS = 120.0, 60.0, 10.0
NUM_ACTORS, PROXIED = 6, (4, 5)
ACTOR_PERIOD_SECS, LEARNER_PERIOD_SECS = 6.0, 144.0
SIGNALS = ("SIGKILL", "SIGTERM", "freeze")
NETWORK = ("cut", "delay", "throttle", "stall", "half-open", "duplicate")
ACTOR_KINDS = [f"actor: {kind}" for kind in (*SIGNALS, "descriptors", *NETWORK)]
ACTOR_KINDS += [f"{who}: {kind}" for who in ("gateway", "launcher's actor") for kind in SIGNALS]
LEARNER_KINDS = [f"learner: {kind}" for kind in (*SIGNALS, "damaged checkpoint", "full disk", "descriptors")]
LEARNER_KINDS += ["launcher: SIGKILL", "launcher: SIGTERM", "launcher's learner: SIGKILL"]

PLAYED = ("--environment=gym", f"--game={GAME}")
COMMON = (
    *(*PLAYED, "--agent=witness", "--batch_size=4", "--intra_op_threads=1"),
    *("--log_period_secs=2", "--save_checkpoint_secs=2", f"--total_environment_frames={10**12}"),
)


@dataclasses.dataclass(frozen=True)
class ChaosConfig(Options):
    """Settings of the campaign."""

    minutes: float = option(2.0, "Minutes with faults; about 10 a minute on actors.", above=0)
    seed: int = option(1, "Seed for the kinds of faults, and for whom they hit.", at_least=0)


class Proxy:
    """A TCP proxy on a port of its own.

    Attributes:
      target: the port that connections go to.
      fault: what happens to their bytes: one of `NETWORK`, or nothing.
    """

    def __init__(self) -> None:
        self.target, self.fault = 0, ""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._open = set[socket.socket]()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections."""
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            near = self._server.accept()[0]
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        is_lost = False
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                is_lost |= self.fault == "half-open"  # For good, as after the crash of a router.
                pieces = [data]
                if self.fault == "duplicate":
                    self.fault, pieces = "", [data, data[len(data) // 2 :]]
                elif self.fault == "throttle":
                    pieces = [data[i : i + 50] for i in range(0, len(data), 50)]
                for piece in pieces if not is_lost else ():
                    time.sleep({"delay": 0.2, "throttle": 0.02}.get(self.fault, 0.0))
                    while self.fault == "stall":
                        time.sleep(0.02)
                    sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open -= {source}


class Process:
    """A command of seed_rl that is started again whenever it ends.

    Attributes:
      starts: how often it was started.
      may_end: exit codes that a fault has caused, which are not violations.
    """

    def __init__(self, name: str, command: Callable[[int], Sequence[str]], env: dict[str, str], log: Path):
        self.name, self.starts, self.may_end = name, 0, set[int]()
        self._command, self._env, self._log = command, {**os.environ, **env}, log
        self.start()

    def start(self) -> None:
        """Starts it with the command for this number of starts before."""
        with open(self._log, "ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "seed_rl", *self._command(self.starts)],
                env=self._env,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL),  # With this process.
            )
        self.starts, self.may_end = self.starts + 1, set()

    def child(self, *words: str) -> psutil.Process | None:
        """The descendant with these words on its command line."""
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.popen.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if set(words) <= set(process.cmdline()):
                        return process
        return None

    def last_lines(self) -> str:
        """The end of its log."""
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-3:])


class Run:
    """A run: its directory, a process that has the learner, and the times of what was trained on."""

    def __init__(self, directory: Path, tasks: int):
        self.directory, self.tasks = directory, range(tasks)
        directory.mkdir()
        np.zeros(2 + MOST_TASKS, np.int64).tofile(directory / "trained")
        self.trained = np.memmap(directory / "trained", np.int64, "r", shape=(2 + MOST_TASKS,))
        self.checkpoints = RunDirectory(directory / "run").checkpoints

    def trains(self, tasks: Sequence[int], since: float) -> bool:
        """Whether unrolls have been trained on that each of these actors has begun since then."""
        return all(self.trained[2 + task] / 100 > since for task in tasks)


@dataclasses.dataclass
class Fault:
    """A fault, and the time when it was over and when everything that it hit trained again."""

    kind: str
    run: Run
    tasks: Sequence[int]
    process: Process
    begun: float
    over: float | None = None
    is_away: bool = False  # Whether a learner had a fault at the same time.
    secs: float | None = None
    condition: Callable[[], bool] = lambda: True


class Campaign:
    """Two runs, and the faults that hit them."""

    def __init__(self, directory: Path, seed: int):
        self.directory, self.random = directory, random.Random(seed)
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.samples: list[Sample] = []
        self._next_sample, self._since = math.inf, 0.0
        info = directory / "path" / "witness-1.0.dist-info"
        info.mkdir(parents=True)
        (directory / "tmp").mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[seed_rl.algorithms]\nwitness = benchmarks.chaos_game:Entry\n"
        )
        secrets = make_credentials("test")
        self.port = free_ports(3)
        self.proxies = {task: Proxy() for task in PROXIED}
        self.fleet, self.launched = Run(directory / "fleet", NUM_ACTORS), Run(directory / "launched", 2)
        self.learner = self._process("learner", self.fleet, self._learner_command, secrets.learner)
        self.actors = [
            self._process("actor", self.fleet, self._actor_command(task), secrets.actor, task)
            for task in self.fleet.tasks
        ]
        self.launcher = self._process(
            "train",
            self.launched,
            lambda _: ("train", *COMMON, "--num_actors=2", "--env_batch_size=2", "--logdir=run"),
        )

    def _process(
        self,
        name: str,
        run: Run,
        command: Callable[[int], Sequence[str]],
        env: dict[str, str] | None = None,
        number: int | None = None,
    ) -> Process:
        name = name if number is None else f"{name} {number}"
        own = {DIRECTORY: str(run.directory), "TMPDIR": str(self.directory / "tmp")}
        paths = f"{ROOT}:{self.directory / 'path'}"
        one = {
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": paths,
        }
        return Process(
            name, command, one | own | (env or {}), run.directory / f"{name.replace(' ', '_')}.log"
        )

    def has_gateways(self, starts: int) -> bool:
        """Whether a learner after so many starts has gateways."""
        return starts % 2 == 0

    def _learner_command(self, starts: int) -> Sequence[str]:
        gateways = 2 if self.has_gateways(starts) else 0
        for i, proxy in enumerate(self.proxies.values()):
            proxy.target = self.port + 1 + i if gateways else self.port
        address = f"--server_address=127.0.0.1:{self.port}"
        num_envs = 2 * NUM_ACTORS
        return (
            "learner",
            *COMMON,
            address,
            "--logdir=run",
            f"--num_envs={num_envs}",
            f"--num_gateways={gateways}",
        )

    def _actor_command(self, task: int) -> Callable[[int], Sequence[str]]:
        port = self.proxies[task].port if task in self.proxies else self.port
        transport = "auto" if task < 2 else "grpc"
        flags = (f"--task={task}", "--env_batch_size=2", "--num_env_groups=2", f"--transport={transport}")
        address = (f"--server_address=127.0.0.1:{port}", f"--tls_server_name={SERVER_NAME}")
        return lambda _: ("actor", *PLAYED, *flags, *address)

    # Faults.

    def hit(self, kind: str) -> bool:
        """Begins a fault of this kind; returns whether that was possible now."""
        who, _, what = kind.partition(": ")
        run = self.launched if who.startswith("launcher") else self.fleet
        is_learners = kind in LEARNER_KINDS
        among = PROXIED if what in NETWORK else range(2, NUM_ACTORS) if what == "descriptors" else run.tasks
        number = self.random.choice(among if not who == "gateway" else (0, 1))
        tasks = run.tasks if is_learners else run.tasks if who == "gateway" else [number]
        main = (
            self.launcher if run is self.launched else self.learner if who != "actor" else self.actors[number]
        )
        active = [fault for fault in self.faults if fault.secs is None and fault.run is run]
        if any(set(f.tasks) & set(tasks) and (f.kind in LEARNER_KINDS) == is_learners for f in active):
            return False
        if is_learners and len(run.checkpoints.prefixes()) < 2:
            return False
        words = {
            "gateway": ("gateway", f"--server_address=127.0.0.1:{self.port + 1 + number}"),
            "launcher's actor": ("actor", f"--task={number}"),
            "launcher's learner": ("learner",),
        }.get(who)
        victim = main.child(*words) if words else psutil.Process(main.popen.pid)
        if victim is None:
            return False
        fault = Fault(kind, run, tasks, main, time.monotonic())
        for other in active:
            fault.is_away |= other.kind in LEARNER_KINDS
            other.is_away |= is_learners
        self.faults.append(fault)
        self._log(fault, number)
        self._begin(fault, what, victim, self.proxies.get(number), is_main=words is None)
        return True

    def _begin(
        self, fault: Fault, what: str, victim: psutil.Process, proxy: Proxy | None, is_main: bool
    ) -> None:
        secs = self.random.choice((*[self.random.uniform(0.3, 5.0)] * 9, 35.0))
        main = fault.process
        if what in NETWORK:
            assert proxy is not None
            if what == "cut":
                proxy.cut()
                return self._over(fault)
            proxy.fault = what
            return self._later(secs, fault, lambda: setattr(proxy, "fault", ""))
        if what == "freeze":
            victim.suspend()
            return self._later(secs, fault, victim.resume)
        if what in ("descriptors", "full disk"):
            kind = resource.RLIMIT_NOFILE if what == "descriptors" else resource.RLIMIT_FSIZE
            limits = victim.rlimit(kind)
            victim.rlimit(kind, (victim.num_fds() if what == "descriptors" else 1, limits[1]))
            for other in self.proxies.values() if what == "descriptors" else ():
                other.cut()
            if what == "full disk":
                fault.condition = lambda: self._newest_checkpoint(fault.run) > (fault.over or 0)
            if fault.kind.startswith("actor"):
                main.may_end |= {1, 2}
            return self._later(max(secs, 3.0), fault, lambda: victim.rlimit(kind, limits))
        left = victim.children(recursive=True)
        if is_main:
            main.may_end |= {143, -15} if what == "SIGTERM" else {-9}
        elif fault.kind.startswith("launcher's learner"):
            main.may_end |= {137}
        victim.send_signal(signal.SIGTERM if what == "SIGTERM" else signal.SIGKILL)
        if what != "SIGTERM":
            if alive := wait_until_gone(left):
                self.violations.append(f"{fault.kind}: {alive} were left")
        if what == "damaged checkpoint":
            self._damage(fault.run)
        self._over(fault)

    def _damage(self, run: Run) -> None:
        path = run.checkpoints.prefixes()[0]
        how = self.random.choice(("a byte", "index", "data"))
        file = next(path.parent.glob(f"{path.name}.{'index' if how == 'index' else 'data*'}"))
        content = bytearray(file.read_bytes())
        if how == "a byte":
            content[self.random.randrange(len(content))] ^= 0x40
        else:
            del content[self.random.randrange(len(content)) :]
        file.write_bytes(content)

    @staticmethod
    def _newest_checkpoint(run: Run) -> float:
        """When it was written, by `time.monotonic`."""
        files = [p.with_name(f"{p.name}.index").stat().st_mtime for p in run.checkpoints.prefixes()[:1]]
        return max(files, default=0.0) - time.time() + time.monotonic()

    def _later(self, secs: float, fault: Fault, end: Callable[[], object]) -> None:
        def over() -> None:
            with contextlib.suppress(psutil.Error):  # Something else has ended it.
                end()
            self._over(fault)

        self._due.append((time.monotonic() + secs, over))

    def _over(self, fault: Fault) -> None:
        fault.over = time.monotonic()

    def _log(self, fault: Fault, number: int = -1) -> None:
        with open(self.directory / "faults.jsonl", "a") as file:
            entry = {"kind": fault.kind, "number": number, "begun": fault.begun, "secs": fault.secs}
            file.write(json.dumps(entry) + "\n")

    # The loop.

    def tick(self) -> None:
        """Starts what has ended, ends faults that are due, and notes who has recovered."""
        time.sleep(0.05)
        for process in (self.learner, self.launcher, *self.actors):
            code = process.popen.poll()
            if code is None:
                continue
            if code not in process.may_end:
                self.violations.append(f"{process.name} ended with {code}: {process.last_lines()}")
                if len(self.violations) > 50:
                    raise RuntimeError(f"too many violations; the last is: {self.violations[-1]}")
            process.start()
        now = time.monotonic()
        for due in [due for due in self._due if due[0] <= now]:
            self._due.remove(due)
            due[1]()
        for fault in self.faults:
            if fault.secs is not None or fault.over is None:
                continue
            secs = now - fault.over
            if fault.run.trains(fault.tasks, fault.over) and fault.condition():
                fault.secs = secs
                self._log(fault)
                if fault.kind.startswith("actor"):
                    fault.process.may_end = set()
            elif secs > RECOVERY_SECS:
                fault.secs = secs
                self.violations.append(f"{fault.kind} of {fault.tasks}: nothing trained within {secs:.0f} s")
        active = [fault for fault in self.faults if fault.secs is None]
        if not active and now > self._next_sample:
            self._next_sample = now + 1.0
            for process in (self.learner, self.launcher):
                with contextlib.suppress(psutil.Error):
                    found = psutil.Process(process.popen.pid)
                    mib = found.memory_info().rss / 2**20
                    self.samples.append(Sample(process.name, process.starts, mib, found.num_fds()))

    def wait(self, condition: Callable[[], bool], secs: float, what: str) -> None:
        """Goes on without new faults until this holds; it is a violation if it does not within `secs`."""
        deadline = time.monotonic() + secs
        while not condition():
            if time.monotonic() > deadline:
                self.violations.append(f"no {what} within {secs:g} s")
                return
            self.tick()

    def trains(self) -> bool:
        """Whether all actors of both runs train on unrolls that they began after now."""
        return all(run.trains(run.tasks, self._since) for run in (self.fleet, self.launched))

    def run(self, minutes: float) -> None:
        """Waits until everything trains, hits it for some minutes, and lets it recover."""
        self._since = time.monotonic()
        self.wait(self.trains, RECOVERY_SECS, "start")
        decks = [(Deck(ACTOR_KINDS, self.random), ACTOR_PERIOD_SECS)]
        period = min(LEARNER_PERIOD_SECS, 60 * minutes / (len(LEARNER_KINDS) + 1))
        decks.append((Deck(LEARNER_KINDS, self.random), period))
        start = self._next_sample = time.monotonic()
        due = [start + period for _, period in decks]
        due[0] -= ACTOR_PERIOD_SECS / 2  # Not at the same time.
        while time.monotonic() < start + 60 * minutes:
            self.tick()
            for i, (deck, period) in enumerate(decks):
                if time.monotonic() >= due[i] and deck.use(self.hit):
                    due[i] += period
        self.wait(lambda: all(f.secs is not None for f in self.faults), RECOVERY_SECS + 60, "recovery")
        self._since = time.monotonic()
        self.wait(self.trains, FINAL_SECS, "training of all actors after the last fault")

    def close(self) -> None:
        """Ends everything, and checks that nothing is left, and what the processes have reported."""
        processes = (self.learner, self.launcher, *self.actors)
        if any("/dev/shm/" in maps_of(p.pid) for p in self.left()):
            self.violations.append("a process has a file in /dev/shm")
        for process in processes:
            process.popen.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(60)
            if process.popen.returncode != 143:
                self.violations.append(f"{process.name} ended with {process.popen.returncode} at the end")
        if left := wait_until_gone(self.left()):
            self.violations.append(f"left at the end: {left}")
            for orphan in left:
                orphan.kill()
        if files := list((self.directory / "tmp").iterdir()):
            self.violations.append(f"left at the end: {files}")
        for run in (self.fleet, self.launched):
            with contextlib.suppress(FileNotFoundError):
                self.violations += (run.directory / "violations.txt").read_text().splitlines()

    def left(self) -> list[psutil.Process]:
        """The processes of this campaign, whoever their parents are."""
        mark, found = os.fsencode(f"{DIRECTORY}={self.directory}"), []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError, psutil.Error):
                if mark in environ.read_bytes():
                    found.append(psutil.Process(int(environ.parent.name)))
        return found


class Deck:
    """Kinds of faults in random order, each as often as the others."""

    def __init__(self, kinds: Sequence[str], draw: random.Random):
        self._kinds, self._draw, self._left = kinds, draw, list[str]()

    def use(self, hit: Callable[[str], bool]) -> bool:
        """Hits with the first kind that is possible now; returns whether there was one."""
        if not self._left:
            self._left = self._draw.sample(self._kinds, len(self._kinds))
        for kind in list(self._left):
            if hit(kind):
                self._left.remove(kind)
                return True
        return False


class Sample(NamedTuple):
    """Resources of a process while nothing was wrong."""

    process: str
    starts: int
    mib: float
    descriptors: int


def wait_until_gone(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Waits until processes have ended, for `GONE_SECS` at most; returns those that have not."""
    deadline = time.monotonic() + GONE_SECS
    while alive := [p for p in processes if is_alive(p)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended may never be reaped."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def maps_of(pid: int) -> str:
    """The memory maps of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = random.SystemRandom().randrange(12_000, 19_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def main(argv: list[str]) -> int:
    """Runs a campaign; returns 1 if anything was wrong."""
    config, _ = parse_options(argv, __doc__ or "", ChaosConfig)
    directory = Path(tempfile.mkdtemp(prefix="seed_rl_chaos_"))
    campaign = Campaign(directory, config.seed)
    try:
        campaign.run(config.minutes)
    finally:
        campaign.close()
    rows = []
    for kind in sorted({f.kind for f in campaign.faults}):
        for away in (False, True):
            secs = [
                f.secs for f in campaign.faults if f.kind == kind and f.is_away == away and f.secs is not None
            ]
            if secs:
                rows.append(
                    [kind + away * ", no learner", len(secs), *map(float, np.percentile(secs, [50, 99, 100]))]
                )
    print_table("Seconds to recover", ["fault", "number", "p50", "p99", "max"], rows)
    for name in ("learner", "train"):
        own = [s for s in campaign.samples if s.process == name]
        if own:
            print(name, own[0], own[-1])
    print(*campaign.violations[:50], sep="\n")
    learners = sum(f.kind in LEARNER_KINDS for f in campaign.faults)
    runs = (campaign.fleet, campaign.launched)
    print_result(
        {
            "benchmark": "chaos",
            "faults_on_actors": len(campaign.faults) - learners,
            "faults_on_learners": learners,
            "unrolls_checked": sum(int(run.trained[0]) for run in runs),
            "wrong_unrolls": sum(int(run.trained[1]) for run in runs),
            "violations": len(campaign.violations),
        }
    )
    if campaign.violations:
        print(directory)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0
