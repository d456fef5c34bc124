"""Signals that stop a process, which are the same in every main.

`run_main` interrupts the main thread at the first one. Launchers and the learner count them instead
(`StopSignals.caught`), and the learner and actors also have a `last_resort`.
"""

import atexit
import contextlib
import math
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

# Signals closer together than this count as one: a closing terminal sends several, `timeout` sends two.
SAME_SIGNAL_SECS = 0.5

# Ctrl-C, the end of a job, the end of the terminal or of the connection to it, and a scheduler's warnings.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def exit_code(signum: int) -> int:
    """The code by which a shell reports the end by a signal: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + signum


# Exit codes of processes that a signal stopped.
STOP_CODES = tuple(exit_code(signum) for signum in STOP_SIGNALS)


def _handled() -> tuple[signal.Signals, ...]:
    """The signals that stop this process; one under nohup ignores SIGHUP, to go on without its terminal."""
    return tuple(s for s in STOP_SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN)


class StopSignals:
    """The signals to stop that this process has got.

    Attributes:
      count: signals so far; those less than `same_signal_secs` after one that counts do not count.
      first: the first signal; None before it.
      since: the time of the first signal, by `time.monotonic`.
    """

    def __init__(self, same_signal_secs: float = SAME_SIGNAL_SECS):
        self.count = 0
        self.first: int | None = None
        self.since = math.inf
        self._same_signal_secs = same_signal_secs
        self._counted = -math.inf

    def is_set(self) -> bool:
        """Whether a signal has arrived."""
        return self.first is not None

    @property
    def exit_code(self) -> int:
        """The exit code of a process that these signals stopped; 0 without a signal."""
        return 0 if self.first is None else exit_code(self.first)

    def note(self, signum: int, frame: FrameType | None = None) -> None:
        """Counts a signal."""
        now = time.monotonic()
        if self.first is None:
            self.first, self.since = signum, now
        if now - self._counted >= self._same_signal_secs:
            self.count, self._counted = self.count + 1, now

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """A context in which signals are counted and have no other effect; needs the main thread.

        A signal since `interrupt_main` counts, too: its KeyboardInterrupt may have been raised where Python
        ignores exceptions, such as in a callback of an import.
        """
        before = {signum: signal.signal(signum, self.note) for signum in _handled()}
        earlier = getattr(before[signal.SIGTERM], "stop", None)
        if earlier is not None and earlier.first is not None:
            self.note(earlier.first)
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


@contextlib.contextmanager
def kept_handlers() -> Iterator[None]:
    """A context for third-party code: at its end, the stop signals have their handlers back."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {signum: signal.getsignal(signum) for signum in STOP_SIGNALS if is_main}
    try:
        yield
    finally:
        for signum, handler in before.items():
            if handler is not None:  # Else C code has installed it.
                signal.signal(signum, handler)


def interrupt_main() -> StopSignals:
    """Makes signals raise KeyboardInterrupt in the main thread for the rest of this process's lifetime.

    A shell without a terminal starts background commands (`&`) with SIGINT ignored, and a parent may have
    blocked it. Children inherit both, and by default Python would never see the signal. Returns the signals
    that have done so.
    """
    stop = StopSignals()

    def interrupt(signum: int, frame: FrameType | None) -> None:
        stop.note(signum)
        handler = signal.getsignal(signal.SIGINT)  # asyncio temporarily replaces it.
        if callable(handler) and handler is not interrupt:
            handler(signum, frame)

    interrupt.stop = stop  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for signum in _handled():
        if signum != signal.SIGINT:
            signal.signal(signum, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    os.register_at_fork(after_in_child=_restore_in_child)
    # Python's handlers are gone while libraries such as TensorFlow end, after the exit functions.
    atexit.register(lambda: [signal.signal(signum, signal.SIG_IGN) for signum in STOP_SIGNALS])
    return stop


def end_with(code: int) -> None:
    """From now on a signal ends this process at once, with this exit code: its main has returned."""
    for signum in _handled():
        signal.signal(signum, lambda *_: os._exit(code))


def _restore_in_child() -> None:
    """Makes signals end a forked child, without reaching the parent's `last_resort`."""
    signal.set_wakeup_fd(-1)
    for signum in _handled():
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def last_resort(second: str, late: str = "", grace_secs: float | None = None) -> Iterator[None]:
    """A context in which a second signal ends the process, or the first one if it has not ended in time.

    A thread reads the signals from a pipe that the C handler writes to, so it also works while the main
    thread is in a call that never returns. Native code that never releases the GIL needs SIGKILL. After a
    first signal the thread goes on until the process ends. Needs the main thread.

    `second` is the message at a second signal, `late` the one if the process has not ended `grace_secs` after
    the first one; None: there is no such limit.
    """
    stop = StopSignals()
    stderr = os.dup(2)  # Standard error may be redirected by the time the message must be shown.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while select.select([reader], [], [], seconds_left())[0]:
            numbers = os.read(reader, 64)
            if not numbers:
                os.close(reader)
                os.close(stderr)
                return
            for number in numbers:
                if number in STOP_SIGNALS:
                    stop.note(number)
            if stop.count > 1:
                end(second)
        end(late)

    def seconds_left() -> float | None:
        limited = stop.is_set() and grace_secs is not None
        return max(0.0, stop.since + (grace_secs or 0.0) - time.monotonic()) if limited else None

    def end(sentence: str) -> None:
        with contextlib.suppress(OSError):
            os.write(stderr, f"seed_rl: {sentence}\n".encode())
        os._exit(stop.exit_code)

    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="last-resort", daemon=True).start()
    try:
        yield
    finally:
        if not stop.is_set():
            signal.set_wakeup_fd(before)
            os.close(writer)
