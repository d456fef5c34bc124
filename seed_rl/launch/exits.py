"""Exit codes of children: as a shell reports them, and in words."""

import signal

from seed_rl.signals import exit_code


def shell_code(code: int) -> int:
    """A child's exit code as a shell reports it: 128 plus the signal's number if one ended it."""
    return exit_code(-code) if code < 0 else code


def describe_exit(code: int) -> str:
    """An exit code in words: `ended with exit code 3`, or `was ended by SIGKILL`."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
