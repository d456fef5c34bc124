"""Handles environments that fail: reports each failure, and replaces them a limited number of times."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable

import gymnasium

_log = logging.getLogger(__name__)


class EnvironmentFailedError(Exception):
    """An environment failed more often than allowed; the message names it, its episode and its agent step."""


@dataclasses.dataclass(frozen=True)
class Spares:
    """Replacements for environments that fail.

    Attributes:
      make: makes an environment from (index, number of the failure); None: the first failure is fatal.
      limit: how often an environment may fail without finishing an episode.
      first_env: the id of the environment with index 0, for messages.
    """

    make: Callable[[int, int], gymnasium.Env] | None = None
    limit: int = 0
    first_env: int = 0


class Watched:
    """One environment, its progress, and its failures since it last finished an episode.

    Attributes:
      env: the environment; `replace` puts another one here.
      is_broken: whether it has failed and has not been replaced yet.
    """

    def __init__(self, env: gymnasium.Env, index: int, spares: Spares):
        """Starts before the first episode."""
        self.env = env
        self.is_broken = False
        self._index, self._spares = index, spares
        self._episode = self._start = self._failures = 0

    def started(self, now: int) -> None:
        """Records that an episode has started; `now` counts agent steps, on the same clock in every call."""
        self._episode, self._start = self._episode + 1, now

    def ended(self) -> None:
        """Records that an episode has ended, which clears the count of failures."""
        self._failures = 0

    def failed(self, error: Exception, now: int) -> None:
        """Counts a failure in agent step `now`.

        Raises:
          EnvironmentFailedError: there have been too many.
        """
        self._failures += 1
        self.is_broken = True
        what = (
            f"Environment {self._spares.first_env + self._index} failed in episode {self._episode} at agent "
            f"step {now - self._start} ({type(error).__name__}: {error})"
        )
        if self._spares.make is None or self._failures > self._spares.limit:
            raise EnvironmentFailedError(
                f"{what}, failure {self._failures} without a finished episode; fix the environment, or "
                "raise --max_environment_failures."
            ) from error
        _log.warning("%s; replacing it (%d of %d).", what, self._failures, self._spares.limit)

    def replace(self) -> gymnasium.Env:
        """Replaces the broken environment with a new one, and returns that."""
        assert self._spares.make is not None
        with contextlib.suppress(Exception):  # It is broken, so errors on closing do not matter.
            self.env.close()
        self.env = self._spares.make(self._index, self._failures)
        self.is_broken = False
        return self.env
