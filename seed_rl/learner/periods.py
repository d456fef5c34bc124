"""When a run writes its figures. No TensorFlow."""

import time

# The first period ends so long after the first update. Each later one is as long as all before it, until they
# are as long as --log_period_secs: a run of seconds shows how it learns.
_FIRST_PERIOD_SECS = 1.0


class Periods:
    """When the periods end that have figures: after the first update soon, later every `longest` seconds."""

    def __init__(self, longest: float):
        """The first period is `longest` seconds, unless an update comes earlier."""
        self._longest = self._length = longest
        self._began = self._first = time.monotonic()

    def first_update(self) -> None:
        """Starts the short periods."""
        self._began = self._first = time.monotonic()
        self._length = min(_FIRST_PERIOD_SECS, self._longest)

    def ended(self) -> bool:
        """Whether a period has ended; if so, the next one begins."""
        now = time.monotonic()
        if now - self._began < self._length:
            return False
        self._began = now
        if self._length < self._longest:
            self._length = min(self._longest, now - self._first)
        return True
