"""The command `seed_rl`, also as `python -m seed_rl`: runs the command that it names."""

import difflib
import os
import shlex
import sys
from typing import NoReturn

import seed_rl
from seed_rl.commands import COMMANDS, main_of
from seed_rl.flags.errors import UsageError, run_main

_HELP = ("help", "-h", "-help", "--help", "--helpfull")


def overview() -> str:
    """One line per command."""
    lines = [f"  seed_rl {name:<13} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "seed_rl: deep reinforcement learning with central inference. Commands, each with --help:\n",
            *lines,
            "\nStart with: seed_rl train catch vtrace",
        ]
    )


def run(argv: list[str]) -> int | None:
    """Runs the command that the arguments name; returns its exit code.

    Raises:
      UsageError: there is no such command, or it is not installed.
    """
    name, *args = argv[1:] or ["--help"]
    if name == "help" and args and args[0] in COMMANDS:
        name, args = args[0], ["--help"]
    if name in _HELP:
        print(overview())
        return 0
    if name == "--version":
        print(f"seed_rl {seed_rl.__version__}")
        return 0
    if name not in COMMANDS:
        raise UsageError(f"{name!r} is not a command; {_hint(name, args)}")
    return main_of(name)([f"seed_rl {name}", *args])


def _hint(name: str, args: list[str]) -> str:
    """Suggestion for a command that does not exist."""
    from seed_rl.environments import registry as environments  # Only here: help and versions are to be quick.

    if name in environments.names():
        return f"write `seed_rl {shlex.join(['train', name, *args])}`."
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"did you mean `seed_rl {near[0]}`?" if near else f"the commands are {', '.join(COMMANDS)}."


def main() -> NoReturn:
    """Runs the command line of this process, and ends the process with the exit code.

    Modules of the current directory can be named in flags, as with `python -m seed_rl`.
    """
    sys.path[0:0] = [] if {"", os.getcwd()} & set(sys.path) else [os.getcwd()]
    run_main(run)


if __name__ == "__main__":
    main()
