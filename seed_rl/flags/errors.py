"""Exit of a main: usage errors with one sentence, signals with their exit code, bugs with a traceback."""

import contextlib
import functools
import importlib.util
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

from seed_rl.messages import REFUSED, complain, how_to_install, one_line, quiet_libraries, report_to_launcher
from seed_rl.signals import end_with, exit_code, interrupt_main

USAGE_EXIT_CODE = 2

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class UsageError(ValueError):
    """An error that the user can fix; its text is one sentence that says what to change."""


def brief_usage_errors(function: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """Decorates a function of the Python interface, so that its UsageErrors show none of our own frames.

    A cause with the same message is dropped. Others, such as an error of the user's environment, stay.
    """

    @functools.wraps(function)
    def brief(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        __tracebackhide__ = True  # Of IPython and pytest.
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            raised, cause = error, error.__cause__
        while cause is not None and str(cause) == str(raised):
            cause = cause.__cause__
        raise raised.with_traceback(None) from cause

    return brief


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Wraps the stage that turns the user's choices into objects (such as making an environment).

    Raises:
      UsageError: a ValueError or ImportError was raised inside, and the message is the same; or a
        MemoryError.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, ImportError) as error:
        wrapped = UsageError(str(error))
        for note in getattr(error, "__notes__", ()):  # The traceback of the user's code.
            wrapped.add_note(note)
        raise wrapped from error
    except MemoryError as error:
        raise out_of_memory(error) from error


def report_answer(config_class: Any, answer: Callable[..., dict[str, Any]]) -> NoReturn:
    """Sends what a function of the options and arguments of the command line returns, as JSON; see `api`.

    For a UsageError it is `{"usage": SENTENCE}`. The process ends.
    """
    settings, *arguments = json.loads(sys.argv[1])
    try:
        found = answer(config_class.of(**settings), *arguments)
    except UsageError as error:
        found = {"usage": str(error)}
    report_to_launcher(json.dumps(found).encode())
    os._exit(0)  # Threads and exit handlers of environments do not matter.


def out_of_memory(error: MemoryError) -> UsageError:
    """The error to raise for settings that need more memory than there is."""
    reason = str(error).rstrip(".") or "none is left"
    return UsageError(
        f"These settings need more memory than there is ({reason}); lower those that are sizes or lengths."
    )


def require_package(module: str, extra: str) -> None:
    """Checks that a top-level module, which this extra installs, is there, without importing it.

    Raises:
      UsageError: it is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"The package {module} is not installed; {how_to_install(extra)}.")


def run_main(main: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a main and ends the process with its exit code.

    A UsageError prints `seed_rl: error: …` without a traceback, and the exit code is 2. It is 130 for Ctrl-C,
    143 for SIGTERM and 129 for SIGHUP, even if the process was started with SIGINT ignored. Any other
    exception is a bug and keeps its traceback (exit code 1). A signal that comes after the main has returned
    changes nothing.

    Args:
      main: takes the arguments, the program's name first, and returns its exit code (None means 0).
      argv: the command line; `sys.argv` by default.
    """
    stop = interrupt_main()
    quiet_libraries()
    if isinstance(sys.stdout, io.TextIOWrapper):  # A terminal without UTF-8 lacks a few characters.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = main(list(sys.argv if argv is None else argv))
    except UsageError as error:
        for note in getattr(error, "__notes__", ()):
            for text in note.splitlines():
                print(" " * (len(text) - len(text.lstrip())) + one_line(text), file=sys.stderr)
        complain(str(error))
        report_to_launcher(REFUSED + b" " + one_line(error).encode())
        code = USAGE_EXIT_CODE
    except KeyboardInterrupt:
        code = stop.exit_code or exit_code(signal.SIGINT)
    end_with(code or 0)
    sys.exit(code or 0)
