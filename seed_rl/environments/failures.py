"""Handles environments that fail: reports each failure, and replaces them a limited number of times."""

import dataclasses
import itertools
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium

from seed_rl.messages import one_line
from seed_rl.options import Options, option
from seed_rl.signals import kept_handlers

_log = logging.getLogger(__name__)

# Beginnings of the paths of code that calls environments, and parts of those of libraries that these call.
_CALLERS = (f"{Path(__file__).parents[1]}/", f"{Path(gymnasium.__file__).parent}/", "<frozen ")
_LIBRARIES = (f"{Path(os.__file__).parent}/", "site-packages/", "dist-packages/")


class HungError(BaseException):
    """An environment did not return in time; the message is a clause that follows the method's name.

    Not an `Exception`: an environment that handles those, and tries again, must not handle this one.
    """


class Deadline:
    """A time limit on calls of the main thread, in seconds (0: none), which it interrupts by SIGALRM.

    It interrupts Python code and whatever a signal interrupts: sleeps, locks, sockets, pipes. Native code
    that never returns to Python is not interrupted. In other threads there is no limit.

    As a context it limits one call; `each` makes it one of many calls, each of which has the whole limit, and
    may take a tenth more.

    Attributes:
      calls: the number of calls that have ended; those of `each` count themselves.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds if threading.current_thread() is threading.main_thread() else 0.0
        self.calls, self._is_of_each = 0, False
        self._ticking = (-1, 0.0)  # The call at the last tick of the timer, and the time of its first one.
        if self._seconds:
            signal.signal(signal.SIGALRM, self._tick)

    def each(self) -> "Deadline":
        """Makes the next context one of many calls. Ticks interrupt what native code waits for earlier."""
        self._is_of_each = True
        return self

    def __enter__(self) -> None:
        is_of_each, self._is_of_each = self._is_of_each, False
        if self._seconds:
            self._ticking, tick = (self.calls, time.monotonic()), self._seconds / 10
            signal.setitimer(signal.ITIMER_REAL, tick if is_of_each else self._seconds, tick)

    def __exit__(self, *_: object) -> None:
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        """Interrupts a call, again and again: destructors and callbacks lose an exception."""
        now = time.monotonic()
        if self._ticking[0] != self.calls:
            self._ticking = self.calls, now
        if now - self._ticking[1] > 0.95 * self._seconds:
            raise HungError(f"did not return within {self._seconds:g} s (--env_step_timeout_secs)")


@dataclasses.dataclass(frozen=True)
class FailureConfig(Options):
    """Tolerance for failures of environments, in a process that plays in them."""

    max_environment_failures: int = option(
        3,
        "How often an environment may fail (raise, hang, or return anything that its spaces do not allow) "
        "and be replaced without finishing an episode; one more failure ends the process that plays in it.",
        at_least=0,
    )
    env_step_timeout_secs: float = option(
        300.0,
        "Seconds after which an environment that has not returned from a step, or from being made, reset or "
        "closed, has failed. 0: no limit.",
        at_least=0,
    )


NO_FAILURES = FailureConfig(max_environment_failures=0, env_step_timeout_secs=0)


class EnvironmentFailedError(Exception):
    """An environment failed more often than allowed.

    Attributes:
      what: names it, its episode, its agent step and its method; one clause.
    """

    def __init__(self, what: str, count: int):
        super().__init__(
            f"{what}; this was failure {count} without a finished episode: fix the environment, or raise "
            "--max_environment_failures."
        )
        self.what = what


class Fault(Exception):
    """Something wrong that an environment returned; the message is a clause that follows the method."""


def foreign(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call of third-party code. Its ValueError becomes a `Fault`: only a suite's own is a refusal."""
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        raise Fault(_clause(error)) from error


def blame(method: str, error: BaseException) -> str:
    """Error of an environment in one line: `step() raised OSError: no device (my_env.py:42 in step)`.

    Args:
      method: the name of the method.
      error: what the call raised, or a `Fault` in what it returned.

    Raises:
      KeyboardInterrupt: `error`, because the user stops this process. Its subclasses are third-party code's.
    """
    if type(error) is KeyboardInterrupt:
        raise error
    place = ""
    if shown := own_traceback(error):
        own = [frame for frame in shown.stack if not any(part in frame.filename for part in _LIBRARIES)]
        last = (own or shown.stack)[-1]
        place = f" ({os.path.basename(last.filename)}:{last.lineno} in {last.name})"
    return f"{method}() {_clause(error)}{place}"


def _clause(error: BaseException) -> str:
    return str(error) if isinstance(error, Fault | HungError) else f"raised {described(error)}"


def cause_of(error: BaseException | None) -> BaseException | None:
    """Error that an environment raised; None if it raised none."""
    while isinstance(error, Fault | EnvironmentFailedError):
        error = error.__cause__
    return error


def own_traceback(error: BaseException) -> traceback.TracebackException | None:
    """The traceback of what an environment raised, without its callers; None if it raised nothing."""
    cause = cause_of(error)
    if cause is None:
        return None
    shown = traceback.TracebackException.from_exception(cause)
    found: traceback.TracebackException | None = shown
    while found is not None:
        for _ in range(2):  # From both ends: a time limit interrupts in a function of ours.
            inner = itertools.dropwhile(lambda frame: frame.filename.startswith(_CALLERS), found.stack)
            found.stack = traceback.StackSummary.from_list(list(inner)[::-1])
        found = found.__cause__ or found.__context__
    return shown if shown.stack else None


def described(error: BaseException) -> str:
    """The type and the text of an error of an environment, in one line: `OSError: no device`.

    After a relative path that does not exist follows the directory.
    """
    try:
        text = str(error)
    except Exception:  # It is the environment's own class.
        text = ""
    path = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(path, str) and not os.path.isabs(path):
        text += f" (in the directory {os.getcwd()})"
    return one_line(type(error).__name__ + (f": {text}" if text else ""), 300)


def close(env: gymnasium.Env | None, deadline: Deadline) -> str:
    """Closes an environment, if there is one; returns what it did wrong, '' if nothing."""
    try:
        with deadline:
            if env is not None:
                env.close()
    except BaseException as error:
        return blame("close", error)
    return ""


class Watched:
    """An environment, or a vector environment, its progress, and its failures since an episode ended.

    Attributes:
      name: what messages call it, such as "Environment 7".
      env: the environment, which `make` and `replace` put here.
      is_broken: whether it has not been made, or has failed and has not been replaced.
      failures: how often it has failed.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[int], Any],
        tolerance: FailureConfig,
        deadline: Deadline,
        seen: Any = None,
    ):
        """Starts before the first episode; `make` makes an environment after so many failures.

        The environments of a batch share the deadline of calls, and `seen`: a set of the tracebacks that have
        been logged.
        """
        self.env: Any = None
        self.name, self.is_broken = name, True
        self._make, self._limit = make, tolerance.max_environment_failures
        self._deadline = deadline
        self._episode = self._start = self._failures = self.failures = 0
        self._seen = set() if seen is None else seen

    def started(self, now: int) -> None:
        """Records that an episode has started; `now` counts agent steps, on the same clock in every call."""
        self._episode, self._start = self._episode + 1, now

    def ended(self) -> None:
        """Records that an episode has ended, which clears the count of failures."""
        self._failures = 0

    def failed(self, method: str, error: BaseException, now: int) -> None:
        """Counts a failure of a method in agent step `now`; logs its traceback, once for each place.

        Raises:
          EnvironmentFailedError: there have been too many.
          KeyboardInterrupt: that is what was raised.
        """
        what = blame(method, error)
        self._failures, self.failures = self._failures + 1, self.failures + 1
        self.is_broken = True
        when = f" in episode {self._episode} at agent step {now - self._start}" if self._episode else ""
        what = f"{self.name} failed{when}: {what}"
        shown = own_traceback(error)
        if shown and (place := str(shown.stack)) not in self._seen:
            self._seen.add(place)
            for line in "".join(shown.format()).splitlines():
                _log.info("| %s", line)  # Shown in actors' logs; a terminal gets the sentence.
        if self._failures > self._limit:
            raise EnvironmentFailedError(what, self._failures) from error
        _log.warning("%s; replacing it (%d of %d).", what, self._failures, self._limit)

    def make(self) -> Any:
        """Makes the first environment, and returns it.

        Raises:
          ValueError: the suite refuses its settings.
          ImportError: the suite's engine is not installed.
          EnvironmentFailedError: making it failed too often.
        """
        while True:
            try:
                return self.replace()
            except (ValueError, ImportError):
                raise
            except BaseException as error:
                self.failed("make", error, 0)

    def replace(self) -> Any:
        """Closes the broken environment, if there is one, makes a new one, and returns that."""
        self.close()
        with kept_handlers(), self._deadline:
            self.env = self._make(self._failures)
        self.is_broken = False
        return self.env

    def step(self, action: Any) -> Any:
        """Result of `env.step`, or the error that it raised; to be called within the deadline."""
        try:
            return self.env.step(action)
        except BaseException as error:  # Also SystemExit, and what bindings to other languages raise.
            return error
        finally:
            self._deadline.calls += 1

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Result of `env.reset`, with those of the two arguments that are given; raises its errors."""
        given = {"seed": seed, "options": options}
        with kept_handlers(), self._deadline:
            return self.env.reset(**{name: value for name, value in given.items() if value is not None})

    def close(self) -> str:
        """Closes the environment; returns what went wrong, which matters only if it was not broken."""
        env, self.env = self.env, None
        problem = close(env, self._deadline)
        return problem and f"{self.name}: {problem}."
