"""What becomes of environments that fail: counted, named, and replaced a bounded number of times."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable

import gymnasium

_log = logging.getLogger(__name__)


class EnvironmentFailedError(Exception):
    """An environment failed more often than it may; the message names it, its episode and its agent step."""


@dataclasses.dataclass(frozen=True)
class Spares:
    """What takes the place of environments that fail.

    Attributes:
      make: an environment for (index, number of the failure); None: the first failure is the last.
      limit: how often an environment may fail before an episode of it has ended.
      first_env: the id of the environment with index 0, for messages.
    """

    make: Callable[[int, int], gymnasium.Env] | None = None
    limit: int = 0
    first_env: int = 0


class Watched:
    """One environment's progress, and its failures since an episode of it ended.

    Attributes:
      env: the environment; another one once `replace` was called.
      is_broken: whether it has failed and was not replaced yet.
    """

    def __init__(self, env: gymnasium.Env, index: int, spares: Spares):
        """Starts before the first episode."""
        self.env = env
        self.is_broken = False
        self._index, self._spares = index, spares
        self._episode = self._start = self._failures = 0

    def started(self, now: int) -> None:
        """An episode has started; `now` counts agent steps, the same ones for every call."""
        self._episode, self._start = self._episode + 1, now

    def ended(self) -> None:
        """An episode has come to its end."""
        self._failures = 0

    def failed(self, error: Exception, now: int) -> None:
        """Counts a failure in agent step `now`.

        Raises:
          EnvironmentFailedError: there were too many.
        """
        self._failures += 1
        self.is_broken = True
        what = (
            f"Environment {self._spares.first_env + self._index} failed in episode {self._episode} at agent "
            f"step {now - self._start} ({type(error).__name__}: {error})"
        )
        if self._spares.make is None or self._failures > self._spares.limit:
            raise EnvironmentFailedError(
                f"{what}, failure {self._failures} without an episode that ended; correct the environment, "
                "or raise --max_environment_failures."
            ) from error
        _log.warning("%s; it is replaced (%d of %d).", what, self._failures, self._spares.limit)

    def replace(self) -> gymnasium.Env:
        """Makes another environment in the place of the broken one, and returns it."""
        assert self._spares.make is not None
        with contextlib.suppress(Exception):  # It is broken: its end does not matter.
            self.env.close()
        self.env = self._spares.make(self._index, self._failures)
        self.is_broken = False
        return self.env
