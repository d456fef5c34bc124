"""Waiting in tests: until a condition is true, but no longer than a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_SECS = 500.0  # Far more than anything takes, even on a busy machine.
_POLL_SECS = 0.02


def wait_until(
    condition: Callable[[], T], what: str | Callable[[], str], seconds: float = DEADLINE_SECS
) -> T:
    """Polls until `condition()` is true, and returns its value.

    Args:
      condition: is called repeatedly; an error that it raises ends the wait.
      what: what is missing if the deadline passes, for the message; or a function that returns it.
      seconds: the deadline, from now.

    Raises:
      AssertionError: the condition was still false after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what() if callable(what) else what}"
        time.sleep(_POLL_SECS)
    return found
