"""Interrupts an environment that does not return."""

import signal
import threading
from types import FrameType


class HungError(BaseException):
    """An environment did not return in time; the message is a clause that follows the method's name.

    Not an `Exception`: an environment that handles those, and tries again, must not handle this one.
    """


class Deadline:
    """A time limit on calls of the main thread, which it interrupts by SIGALRM.

    It interrupts Python code and whatever a signal interrupts: sleeps, locks, sockets, pipes. Native code
    that never returns to Python is not interrupted. In other threads there is no limit.
    """

    def __init__(self, seconds: float):
        """Prepares a limit of so many seconds; 0: none."""
        self._seconds = seconds if threading.current_thread() is threading.main_thread() else 0.0
        if self._seconds:
            signal.signal(signal.SIGALRM, self._expired)

    def __enter__(self) -> None:
        """Starts the time."""
        if self._seconds:  # Again and again, in case the interruption is lost in a destructor or a callback.
            signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)

    def __exit__(self, *_: object) -> None:
        """Stops the time."""
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _expired(self, signum: int, frame: FrameType | None) -> None:
        raise HungError(f"did not return within {self._seconds:g} s (--env_step_timeout_secs)")
