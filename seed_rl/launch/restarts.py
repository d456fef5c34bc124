"""Restarts of children that crash, and the time limits of all who supervise children."""

import dataclasses
import time
from collections.abc import Callable

from seed_rl.launch.watch import POLL_SECS, Process, Watch
from seed_rl.signals import SAME_SIGNAL_SECS


@dataclasses.dataclass(frozen=True)
class Timing:
    """Intervals and time limits, in seconds.

    Attributes:
      poll: interval between two checks of the processes.
      checkpoint_grace: how long the learner may take to write its checkpoint after a signal, and how long
        several learners may take to end by themselves after one of them has.
      finish_grace: how long actors may take to exit on their own after the learner has exited with 0.
      terminate_grace: how long actors may take to exit after SIGTERM.
      verdict_grace: when an actor or one of several learners gives up, how long to wait in case the learner
        is ending, too.
      first_backoff: delay before the first restart of an actor; it doubles with each restart.
      longest_backoff: upper limit of the delay.
      same_signal: signals closer together than this count as one.
      healthy_after: if an actor ran for this long, its next delay is the first one again.
    """

    poll: float = POLL_SECS
    checkpoint_grace: float = 60.0
    finish_grace: float = 10.0
    terminate_grace: float = 5.0
    verdict_grace: float = 1.0
    first_backoff: float = 1.0
    longest_backoff: float = 30.0
    same_signal: float = SAME_SIGNAL_SECS
    healthy_after: float = 60.0


class Restarts:
    """Schedules the restarts of a child that crashes.

    Attributes:
      total: restarts scheduled so far.
    """

    def __init__(self, timing: Timing):
        self.total = 0
        self._timing = timing
        self._next_backoff = timing.first_backoff
        self._due: float | None = None

    @property
    def pending(self) -> bool:
        """Whether a restart is scheduled and not yet taken."""
        return self._due is not None

    def order(self, lifetime: float) -> float:
        """Schedules a restart of a child that ran for `lifetime` seconds; returns the delay in seconds."""
        if lifetime >= self._timing.healthy_after:
            self._next_backoff = self._timing.first_backoff
        backoff = self._next_backoff
        self._next_backoff = min(2 * backoff, self._timing.longest_backoff)
        self._due = time.monotonic() + backoff
        self.total += 1
        return backoff

    def take(self) -> bool:
        """Returns True once, when the scheduled restart is due."""
        if self._due is None or time.monotonic() < self._due:
            return False
        self._due = None
        return True


def restart(watch: Watch, child: Process, restarts: Restarts, say: Callable[[str], None]) -> None:
    """Restarts a crashed child. A failed start counts as another crash: the next restart is scheduled."""
    try:
        watch.start(child)
    except Exception as error:  # No error here is a reason to end the other processes.
        backoff = restarts.order(lifetime=0.0)
        say(f"{child.name} could not be started ({error}); the next attempt is in {backoff:g} s.")
