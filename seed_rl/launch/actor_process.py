"""An actor process, with a policy or without: from its flags to its exit code."""

import contextlib
import ctypes
import errno
import faulthandler
import mmap
import os
from collections.abc import Callable, Iterator

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.group import EnvironmentRefusedError
from seed_rl.actor.loop import Actor
from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.resolve import resolve
from seed_rl.messages import COMPLETE, complain, log_lines, report_to_launcher
from seed_rl.signals import last_resort
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.security import SecurityConfig, check_connecting, load_security

# Shorter than a launcher waits for its actors, so that the message still reaches the log.
_STOP_SECS = 4.0
_LATE = (
    f"the actor did not stop within {_STOP_SECS:g} s after the signal and was ended; an environment "
    "probably hangs."
)
_SECOND = "the actor was ended at once; its environments were not closed."

# Resources that gRPC needs for its threads. Without it, gRPC aborts the process or waits for ever.
_FREE_FILES, _FREE_BYTES = 16, 640 << 20


def run_actor(argv: list[str], description: str, actor_class: Callable[[], type[Actor]]) -> int:
    """Runs an actor until training has ended; returns the exit code.

    `actor_class` imports its class, once the flags are known to be right.
    """
    with last_resort(_SECOND, _LATE, _STOP_SECS):
        return _play(argv, description, actor_class)


def _play(argv: list[str], description: str, actor_class: Callable[[], type[Actor]]) -> int:
    faulthandler.enable(2)  # If native code ends this process, the log has the stack.
    log_lines()
    keep_freed_memory()
    settings = resolve(argv, description, (ActorConfig, SecurityConfig), with_agent=False)
    config, security_config = settings.read(ActorConfig), settings.read(SecurityConfig)
    with usage_errors():
        security = load_security(security_config, os.environ)
        check_connecting(config.server_address, security_config, security)
        actor = actor_class()(config, security, settings.chosen_environment())
    try:
        with _within_limits():
            actor.run()
        report_to_launcher(COMPLETE)
    except (RefusedError, EnvironmentRefusedError) as error:
        raise UsageError(str(error)) from None
    except (LearnerGoneError, EnvironmentFailedError) as error:
        complain(str(error))
        return 1
    finally:
        actor.close()
    return 0


@contextlib.contextmanager
def _within_limits() -> Iterator[None]:
    """Wraps what needs files and memory. Opens and reserves some first, and gives them back.

    Raises:
      UsageError: this process may have no more.
    """
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(_FREE_FILES):
                stack.enter_context(open(os.devnull))
            stack.enter_context(mmap.mmap(-1, _FREE_BYTES, prot=mmap.PROT_READ))
        yield
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        raise UsageError(
            f"The actor needs more than this process may have ({error}): raise its limits of open files "
            "(ulimit -n) and memory (ulimit -v), or have fewer environments in an actor."
        ) from error


# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_KEPT_BYTES = 128 << 20
_LARGEST_BLOCK_BYTES = 32 << 20


def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory for the next allocation; returns whether that worked.

    An actor sends messages of the same size all the time. glibc would return the memory of large ones to
    the system each time, and touching fresh memory for the first time costs more than everything else that
    is done with such a message. With another C library, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES))
