"""Signals that ask a launcher to stop: counted, and otherwise left to its loop."""

import contextlib
import math
import signal
import time
from collections.abc import Iterator
from types import FrameType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Counts SIGINT, SIGTERM and SIGHUP; needs the main thread.

    Attributes:
      count: so far; signals that come close together count as one, since a closing terminal sends several.
    """

    def __init__(self, same_signal_secs: float):
        """Counts nothing yet; signals less than `same_signal_secs` apart will count as one."""
        self.count = 0
        self._same_signal_secs = same_signal_secs

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Within it signals are counted and do nothing else."""
        latest = -math.inf

        def count(signum: int, frame: FrameType | None) -> None:
            nonlocal latest
            now = time.monotonic()
            if now - latest >= self._same_signal_secs:
                self.count += 1
            latest = now

        # What runs under nohup outlives its terminal.
        signals = [s for s in _STOP_SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
        before = {signum: signal.signal(signum, count) for signum in signals}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
