"""Threads that help other threads with their work. Imports no TensorFlow."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# The rest of a large machine is for inference and training.
_MOST_BY_DEFAULT = 4


def default_threads() -> int:
    """How many helpers pay: one core is left to the thread that asks for help; at most 4."""
    # macOS does not say which cores a process may use.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(cores - 1, _MOST_BY_DEFAULT))


class Helpers:
    """A pool of threads. A thread with many items to work on shares them with the pool. Thread-safe.

    The thread that asks for help works too, so it never waits for helpers that are busy elsewhere, and
    everything also works without any.
    """

    def __init__(self, threads: int, name: str):
        """Prepares `threads` threads, 0 or more, named after `name`; they start when they are needed."""
        self._threads = threads
        self._executor = ThreadPoolExecutor(threads, name) if threads else None

    @contextlib.contextmanager
    def sharing(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[Iterator[R]]:
        """Starts work on all items, in a context that gives an iterator of the results, in order.

        An error in `function` is raised by the iterator when it reaches that item. No thread works on any
        item when the context has ended, however it ends.
        """
        job = _Job(function, items)
        for _ in range(min(self._threads, len(items) - 1)):
            # Refused when closed, or by a machine that is out of threads: then the caller does the work.
            with contextlib.suppress(RuntimeError):
                assert self._executor is not None
                self._executor.submit(job.help)
        try:
            yield (job.result(index) for index in range(len(items)))
        finally:
            job.end()

    def close(self) -> None:
        """Ends the threads, and waits until they are done with work that has begun."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class _Outcome(Generic[R]):
    """What a function returned or raised."""

    def __init__(self, function: Callable[[T], R], item: T):
        self._error: BaseException | None = None
        try:
            self._value = function(item)
        except BaseException as error:
            self._error = error

    def get(self) -> R:
        if self._error is not None:
            raise self._error
        return self._value


class _Job(Generic[T, R]):
    """Items that several threads work on, each taking the next one that nobody has taken."""

    def __init__(self, function: Callable[[T], R], items: Sequence[T]):
        self._function = function
        self._items: Sequence[T] = items
        self._outcomes: list[_Outcome[R] | None] = [None] * len(items)
        self._taken = self._done = 0
        self._changed = threading.Condition()

    def help(self) -> None:
        """Works until there is nothing left to take."""
        while self._work():
            pass

    def result(self, index: int) -> R:
        """The result of an item; works on what is left in the meantime."""
        while self._outcomes[index] is None and self._work():
            pass
        with self._changed:
            self._changed.wait_for(lambda: self._outcomes[index] is not None)
        outcome = self._outcomes[index]
        assert outcome is not None
        return outcome.get()

    def end(self) -> None:
        """Leaves the rest undone, waits until nobody works on any item, and lets go of everything."""
        with self._changed:
            self._items = ()
            self._changed.wait_for(lambda: self._done == self._taken)
        self._outcomes.clear()
        del self._function  # A helper that was too busy may still hold this job.

    def _work(self) -> bool:
        """Works on the next item; false if there is none."""
        with self._changed:
            if self._taken >= len(self._items):
                return False
            index, item = self._taken, self._items[self._taken]
            self._taken += 1
        outcome = _Outcome(self._function, item)
        with self._changed:
            self._outcomes[index] = outcome
            self._done += 1
            self._changed.notify_all()
        return True
