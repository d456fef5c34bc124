"""How a main ends: errors of use with one sentence, signals with their exit code, bugs with a traceback."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from seed_rl.signals import Interrupts, exit_code

USAGE_EXIT_CODE = 2


class UsageError(ValueError):
    """Something that the user can put right; its text is one sentence that says what to change."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Around the stage that turns the user's choices into objects (such as making an environment).

    Raises:
      UsageError: for a ValueError or ImportError from inside, with its sentence.
    """
    try:
        yield
    except UsageError:
        raise
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


def require_package(module: str, extra: str) -> None:
    """Checks that an optional package is there, without importing it.

    Args:
      module: the top-level module, such as `tensorflow`.
      extra: the extra of this project that installs it, such as `learner`.

    Raises:
      UsageError: it is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise UsageError(
            f"The package {module} is not installed; install it with: pip install 'seed_rl[{extra}]' "
            f"(in a clone: pip install -e '.[{extra}]')."
        )


def run_main(main: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a main and ends the process with its exit code.

    UsageError gives `seed_rl: error: …` and exit code 2 without a traceback. Ctrl-C gives 130 and SIGTERM
    143, even if the process was started with SIGINT ignored. Every other exception is a bug and keeps its
    traceback (exit code 1).

    Args:
      main: takes the arguments, the program's name first, and returns its exit code (None: 0).
      argv: by default `sys.argv`.
    """
    interrupts = Interrupts()
    try:
        code = main(list(sys.argv if argv is None else argv))
    except UsageError as error:
        print(f"seed_rl: error: {error}", file=sys.stderr)
        code = USAGE_EXIT_CODE
    except KeyboardInterrupt:
        code = exit_code(interrupts.signum)
    sys.exit(code or 0)
