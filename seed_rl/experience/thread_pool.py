"""Thread pool whose callers work, too. Imports no TensorFlow."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# The rest of a large machine is for inference and training.
_MOST_BY_DEFAULT = 4


def default_threads() -> int:
    """Default number of helper threads: one core is left to the thread that shares its work; at most 4."""
    # macOS does not report which cores a process may use.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(cores - 1, _MOST_BY_DEFAULT))


class Helpers:
    """A pool of threads. A thread with many items to work on shares them with the pool. Thread-safe.

    The calling thread works too, so it never waits for helpers that are busy elsewhere, and
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
            yield job.results()
        finally:
            job.end()

    def close(self) -> None:
        """Ends the threads, and waits until they are done with work that has begun."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class _Job(Generic[T, R]):
    """Items that several threads work on, each taking the next one that nobody has taken."""

    def __init__(self, function: Callable[[T], R], items: Sequence[T]):
        self._function = function
        self._futures: list[Future[R]] = [Future() for _ in items]
        # Shared by the threads; the interpreter lock makes them take turns.
        self._left = iter(list(zip(self._futures, items, strict=True)))

    def help(self) -> None:
        """Works until there is nothing left to take."""
        while self._work():
            pass

    def results(self) -> Iterator[R]:
        """The results in order; works on what is left while the next one is not there."""
        for future in self._futures:
            while not future.done() and self._work():
                pass
            yield future.result()

    def end(self) -> None:
        """Leaves the rest undone, waits until nobody works on any item, and lets go of everything."""
        wait([future for future in self._futures if not future.cancel()])
        self._futures.clear()
        self._left = iter([])
        del self._function  # A helper that was too busy may still hold this job.

    def _work(self) -> bool:
        """Works on the next item; false if there is none."""
        taken = next(self._left, None)
        if taken is None or not taken[0].set_running_or_notify_cancel():
            return False
        future, item = taken
        try:
            future.set_result(self._function(item))
        except BaseException as error:
            future.set_exception(error)
        return True
