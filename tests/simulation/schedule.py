"""A schedule of tasks in virtual time, and what it puts in the place of `threading`, `time` and `queue`.

Tasks are greenlets: code that blocks runs unchanged, and only one task runs at a time. Whenever one could
be interrupted or has to wait, a seeded generator chooses the next. Time passes only when all tasks wait.
"""

import asyncio
import collections
import contextlib
import queue
import random
import secrets
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import greenlet

_TRACED = 40

# How often a task is interrupted where another one could change what it sees.
_INTERRUPTIONS = 0.2


class Task(greenlet.greenlet):
    """A thread of a simulated process.

    Attributes:
      process: the name of its process; all tasks of a process die together.
      due: when it goes on although nothing has woken it; None: never.
      poll: whether what it waits for outside of the schedule is there; None: it waits for nothing there.
      is_ready: whether it may go on now.
      local: values of `threading.local`, by object.
    """

    def __init__(self, run: Callable[[], None], hub: greenlet.greenlet, process: str, name: str):
        super().__init__(run, hub)
        self.process, self.name = process, name
        self.due: float | None = None
        self.poll: Callable[[], Any] | None = None
        self.is_ready = True
        self.local: dict[int, dict[str, Any]] = {}


class Schedule:
    """The tasks.

    Attributes:
      now: virtual seconds, from `start` on.
      random: draws everything that is not determined.
      errors: what tasks have raised, with their names.
      events: how often a task has gone on.
      tasks: those that live.
      trace: the last events, in words.
      at_death: called with the name of a process that is killed.
      is_over: whether the world is gone; nothing waits any more.
    """

    def __init__(self, seed: int):
        self.now = self.start = 1_000.0
        self.random = random.Random(seed)
        self.errors: list[tuple[str, BaseException]] = []
        self.events = 0
        self.trace: collections.deque[str] = collections.deque(maxlen=_TRACED)
        self.tasks: list[Task] = []
        self.at_death: list[Callable[[str], None]] = []
        self.is_over, self._hub = False, greenlet.getcurrent()
        # Kept: what they were about to do must not happen, not even at their end.
        self._dead: list[Task] = []
        self._frozen: set[str] = set()

    def spawn(self, process: str, name: str, run: Callable[[], Any]) -> Task:
        """Adds a task of a process."""

        def guarded() -> None:
            try:
                run()
            except Exception as error:
                self.errors.append((f"{process}/{name}", error))

        task = Task(guarded, self._hub, process, name)
        self.tasks.append(task)
        return task

    @property
    def current(self) -> Task:
        task = greenlet.getcurrent()
        assert isinstance(task, Task)
        return task

    def is_running(self, process: str) -> bool:
        """Whether a process has tasks left."""
        return any(task.process == process for task in self.tasks)

    def kill(self, process: str) -> None:
        """Ends a process as SIGKILL does: its tasks never go on."""
        self._dead += [task for task in self.tasks if task.process == process]
        self.tasks = [task for task in self.tasks if task.process != process]
        self._frozen.discard(process)
        self._tell_of_death(process)
        if greenlet.getcurrent() in self._dead:
            self._hub.switch()

    def _tell_of_death(self, process: str) -> None:
        for call in self.at_death:
            call(process)

    def freeze(self, process: str) -> None:
        """Stops the tasks of a process until `thaw`, as SIGSTOP does."""
        self._frozen.add(process)

    def thaw(self, process: str) -> None:
        """Lets the tasks of a process go on."""
        self._frozen.discard(process)

    def note(self, event: str) -> None:
        """Adds to the trace."""
        self.trace.append(f"{self.now:.4f} {event}")

    def interruption(self) -> None:
        """Lets other tasks go first, sometimes."""
        if self.random.random() < _INTERRUPTIONS:
            self.current.is_ready = True
            self._switch()

    def wait(self, timeout_secs: float | None, poll: Callable[[], Any] | None = None) -> bool:
        """Waits until the current task is woken, or `poll` is true; returns whether it was woken."""
        task = self.current
        task.is_ready, task.poll = False, poll
        task.due = None if timeout_secs is None else self.now + max(0.0, timeout_secs)
        self._switch()
        woken, task.is_ready, task.due, task.poll = task.is_ready, False, None, None
        return woken

    def wake(self, task: Task) -> None:
        """Lets a task go on that waits."""
        task.is_ready = True

    def sleep(self, secs: float) -> None:
        """Waits for virtual seconds."""
        self.wait(secs)

    def _switch(self) -> None:
        if self.is_over:
            raise greenlet.GreenletExit
        loop = asyncio._get_running_loop()  # All tasks are in one thread, and each may have its own.
        asyncio._set_running_loop(None)
        self._hub.switch()
        asyncio._set_running_loop(loop)

    def close(self) -> None:
        """Ends all tasks; the world that they belong to is gone."""
        self.is_over = True
        tasks = [*self.tasks, *self._dead]
        for task in tasks:
            task.throw(greenlet.GreenletExit)
        for process in {task.process for task in tasks}:
            self._tell_of_death(process)

    def run(self, until: Callable[[], bool]) -> None:
        """Runs tasks until this is true; RuntimeError if all of them wait for ever."""
        while not until():
            awake, now = [task for task in self.tasks if task.process not in self._frozen], self.now
            ready = [
                t
                for t in awake
                if t.is_ready or (t.due is not None and t.due <= now) or (t.poll and t.poll())
            ]
            if not ready:
                times = [task.due for task in awake if task.due is not None]
                if not times:
                    waiting = ", ".join(f"{task.process}/{task.name}" for task in awake)
                    raise RuntimeError(f"All tasks wait for ever: {waiting}.")
                self.now = max(self.now, min(times))
                continue
            task = ready[0] if len(ready) == 1 else self.random.choice(ready)
            self.events += 1
            # A little time passes with each turn, so that busy tasks reach their time limits.
            self.now += 1e-5
            self.note(f"{task.process}/{task.name}")
            task.switch()
            if task.dead:
                self.tasks = [other for other in self.tasks if other is not task]


class Lock:
    """`threading.Lock` and `threading.RLock`."""

    def __init__(self, schedule: Schedule):
        self._schedule, self._count = schedule, 0
        self._owner: Task | None = None
        self._waiting: list[Task] = []

    def acquire(self) -> bool:
        if self._schedule.is_over:
            return True
        task = self._schedule.current
        if self._owner is not task:
            self._schedule.interruption()
            while self._owner is not None:
                self._waiting.append(task)
                self._schedule.wait(None)
            self._owner = task
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count and not self._schedule.is_over:
            self._owner = None
            if self._waiting:
                place = self._schedule.random.randrange(len(self._waiting))
                self._schedule.wake(self._waiting.pop(place))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition(Lock):
    """`threading.Condition`."""

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        self._waiters: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        task = self._schedule.current
        self._waiters.append(task)
        count, self._count = self._count, 1
        self.release()
        woken = self._schedule.wait(timeout)
        if task in self._waiters:
            self._waiters.remove(task)
        self.acquire()
        self._count = count
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else self._schedule.now + timeout
        while not (found := predicate()):
            left = None if end is None else end - self._schedule.now
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        for task in self._waiters[:n]:
            self._waiters.remove(task)
            self._schedule.wake(task)

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class Queue:
    """`queue.SimpleQueue`; it has no lock that a process could die with."""

    def __init__(self, schedule: Schedule):
        self._schedule, self._items, self._waiting = schedule, list[Any](), list[Task]()

    def put(self, item: Any) -> None:
        self._items.append(item)
        for task in self._waiting:
            self._schedule.wake(task)
        self._waiting.clear()

    def get(self, timeout: float | None = None) -> Any:
        end = None if timeout is None else self._schedule.now + timeout
        while not self._items:
            left = None if end is None else end - self._schedule.now
            if left is not None and left <= 0:
                raise queue.Empty
            self._waiting.append(self._schedule.current)
            self._schedule.wait(left)
        return self._items.pop(0)


class _Local:
    """`threading.local`."""

    def __init__(self, schedule: Schedule):
        self.__dict__["_schedule"] = schedule

    def _values(self) -> dict[str, Any]:
        return self._schedule.current.local.setdefault(id(self), {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value


@contextlib.contextmanager
def replaced(
    schedule: Schedule, modules: list[types.ModuleType], others: Mapping[str, Any]
) -> Iterator[None]:
    """Puts the schedule in the place of the time and the threads that modules use, and `others`, by name."""
    make = lambda kind: lambda *_: kind(schedule)  # noqa: E731
    now = lambda: schedule.now  # noqa: E731
    stands_in = {
        "threading": types.SimpleNamespace(
            Lock=make(Lock),
            RLock=make(Lock),
            Condition=make(Condition),
            local=make(_Local),
            get_ident=lambda: id(greenlet.getcurrent()),
        ),
        "time": types.SimpleNamespace(monotonic=now, perf_counter=now, time=now, sleep=schedule.sleep),
        "random": schedule.random,
        "secrets": types.SimpleNamespace(
            randbits=schedule.random.getrandbits, token_bytes=secrets.token_bytes, token_hex=secrets.token_hex
        ),
        **others,
    }
    before = [
        (module, name, getattr(module, name))
        for module in modules
        for name in stands_in
        if hasattr(module, name)
    ]
    for module, name, _ in before:
        setattr(module, name, stands_in[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
