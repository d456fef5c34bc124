"""The signals that ask a process to stop, which are the same in every main."""

import atexit
import contextlib
import math
import os
import selectors
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

# Signals closer together than this count as one: a closing terminal sends several, `timeout` sends two.
SAME_SIGNAL_SECS = 0.5

# Ctrl-C, the end of a job, and the end of the terminal or of the connection to it.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_code(signum: int) -> int:
    """The exit code of a process that a signal stopped, as a shell reports it.

    It is 130 for SIGINT, 143 for SIGTERM and 129 for SIGHUP.
    """
    return 128 + signum


# Exit codes of processes that were asked to stop.
STOP_CODES = tuple(exit_code(signum) for signum in STOP_SIGNALS)


def handled() -> tuple[signal.Signals, ...]:
    """The signals that stop this process; one under nohup ignores SIGHUP, and so outlives its terminal."""
    return tuple(s for s in STOP_SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN)


class Interrupts:
    """Makes `handled` signals raise KeyboardInterrupt in the main thread, however the process was started.

    A shell without a terminal starts background commands (`&`) with SIGINT ignored, and a parent may have
    blocked it. Children inherit both, and by default Python would never see the signal.

    Attributes:
      signum: the signal behind the KeyboardInterrupt: SIGINT unless another one has arrived.
    """

    def __init__(self) -> None:
        """Installs the handlers for the rest of the process's lifetime; needs the main thread."""
        self.signum: int = signal.SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for signum in handled():
            if signum != signal.SIGINT:
                signal.signal(signum, self._terminate)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        os.register_at_fork(after_in_child=_restore_in_child)
        # Python's handlers are gone while libraries such as TensorFlow end, after the exit functions.
        atexit.register(_ignore_signals)

    def main_has_ended(self, code: int) -> None:
        """From now on a signal ends the process at once, with this exit code."""
        for signum in handled():
            signal.signal(signum, lambda *_: os._exit(code))

    def _terminate(self, signum: int, frame: FrameType | None) -> None:
        """Does whatever SIGINT currently does, because asyncio temporarily replaces its handler."""
        self.signum = signum
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signum, frame)


def _ignore_signals() -> None:
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def _restore_in_child() -> None:
    """Makes signals end a forked child, without reaching the parent's `LastResort`."""
    signal.set_wakeup_fd(-1)
    for signum in handled():
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class LastResort:
    """Ends the process at a second signal, or if it has not ended in time after the first.

    A thread reads the signals from a pipe that the C handler writes to, so it also works while the main
    thread is in a call that never returns. Native code that never releases the GIL needs SIGKILL.

    This is a context manager. After a first signal it stays armed until the process ends.
    """

    def __init__(self, second: str, late: str = "", grace_secs: float | None = None):
        """Prepares the watch; needs the main thread.

        Args:
          second: the message at a second signal.
          late: the message if the process has not ended in time.
          grace_secs: how long it may take to end after the first signal; None: no limit.
        """
        self._second, self._late, self._grace_secs = second, late, grace_secs
        self._first: tuple[int, float] | None = None  # The first signal, and when it arrived.

    def __enter__(self) -> None:
        """Starts watching."""
        # Standard error may be redirected by the time the message must be shown.
        self._stderr = os.dup(2)
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._fd_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader,), name="last-resort", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        """Stops watching, unless a signal has arrived."""
        if self._first is None:
            signal.set_wakeup_fd(self._fd_before)
            os.close(self._writer)

    def _watch(self, reader: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            while selector.select(self._seconds_left()):
                numbers = os.read(reader, 64)
                if not numbers:
                    os.close(reader)
                    os.close(self._stderr)
                    return
                for number in numbers:
                    if number in STOP_SIGNALS:
                        self._on_signal(number)
        self._end(self._late)

    def _on_signal(self, number: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = (number, now)
        elif now - self._first[1] >= SAME_SIGNAL_SECS:
            self._end(self._second)

    def _seconds_left(self) -> float | None:
        if self._first is None or self._grace_secs is None:
            return None
        return max(0.0, self._first[1] + self._grace_secs - time.monotonic())

    def _end(self, sentence: str) -> None:
        assert self._first is not None
        with contextlib.suppress(OSError):
            os.write(self._stderr, f"seed_rl: {sentence}\n".encode())
        os._exit(exit_code(self._first[0]))


class StopSignals:
    """Counts the signals that ask this process to stop; needs the main thread.

    Attributes:
      count: signals so far; those close together count as one, since a closing terminal sends several.
      first: the first signal; None before it.
    """

    def __init__(self, same_signal_secs: float = SAME_SIGNAL_SECS):
        """Starts at 0; signals less than `same_signal_secs` apart will count as one."""
        self.count = 0
        self.first: int | None = None
        self._same_signal_secs = same_signal_secs

    def is_set(self) -> bool:
        """Whether a signal has arrived."""
        return self.first is not None

    @property
    def exit_code(self) -> int:
        """The exit code of a process that these signals stopped; 0 without a signal."""
        return 0 if self.first is None else exit_code(self.first)

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """A context in which signals are counted and have no other effect."""
        latest = -math.inf

        def count(signum: int, frame: FrameType | None) -> None:
            nonlocal latest
            now = time.monotonic()
            if self.first is None:
                self.first = signum
            if now - latest >= self._same_signal_secs:
                self.count += 1
            latest = now

        before = {signum: signal.signal(signum, count) for signum in handled()}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


@contextlib.contextmanager
def stop_requests(second: str) -> Iterator[StopSignals]:
    """A context in which the first signal requests a stop, and a second one ends the process.

    Needs the main thread.

    Args:
      second: the message at a second signal.
    """
    requested = StopSignals()
    with LastResort(second), requested.caught():
        yield requested
