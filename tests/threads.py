"""Threads whose errors and ends are visible to tests."""

import sys
import threading

from tests.waiting import DEADLINE_SECS


class Thread(threading.Thread):
    """Runs a function and keeps what it raised."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self.error, self._function, self._args = None, function, args
        self.start()

    def run(self):
        try:
            self._function(*self._args)
        except Exception as error:
            self.error = error

    def is_waiting(self):
        """Whether it is waiting for a condition right now."""
        frame = sys._current_frames().get(self.ident)
        return frame is not None and frame.f_code is threading.Condition.wait.__code__

    def finished(self, seconds=DEADLINE_SECS):
        self.join(seconds)
        return not self.is_alive()
