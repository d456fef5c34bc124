"""Completes the commands, environments, agents and flags in a shell: prints the line that turns it on.

Examples:
  seed_rl completion bash >> ~/.bashrc
  seed_rl completion zsh >> ~/.zshrc

The shell then calls this command at each Tab, with what has been typed in COMP_LINE.
"""

import contextlib
import io
import os
import re

from seed_rl.algorithms import registry as algorithms
from seed_rl.commands import COMMANDS, main_of
from seed_rl.environments import registry as environments
from seed_rl.flags.errors import UsageError

_BASH = "complete -o default -C 'seed_rl completion' seed_rl"
_LINES = {
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit && {_BASH}",
}
# The commands whose arguments begin with an environment and an agent.
_WITH_ENVIRONMENT = ("train", "check", "cluster", "learner", "actor", "vertex")
_FLAG = re.compile(r"^  --(?:\[no\])?(\w+)", re.MULTILINE)


def main(argv: list[str]) -> int:
    """Prints the line for a shell, or, called by a shell, what may stand at the cursor."""
    line = os.environ.get("COMP_LINE")
    if line is not None:
        typed = line[: int(os.environ.get("COMP_POINT", len(line)))].split(" ")
        print(*candidates([word for word in typed[1:-1] if word], typed[-1]), sep="\n")
        return 0
    if len(argv) == 2 and argv[1] in ("--help", "--helpfull"):
        print((__doc__ or "").strip())
        return 0
    if len(argv) != 2 or argv[1] not in _LINES:
        raise UsageError(f"Name one shell: seed_rl completion {' or '.join(_LINES)}.")
    print(_LINES[argv[1]])
    return 0


def candidates(words: list[str], start: str) -> list[str]:
    """The words that begin with `start` and may follow `seed_rl` and `words`; none for paths."""
    if not words:
        found = list(COMMANDS)
    elif words[0] not in COMMANDS:
        return []
    elif start.startswith("-"):
        found = _flags(words)
    elif words[0] == "completion":
        found = list(_LINES)
    elif words[0] in _WITH_ENVIRONMENT and not any(word.startswith("-") for word in words):
        places = [environments.names(), algorithms.choices()]
        found = list(places[len(words) - 1]) if len(words) <= len(places) else []
    else:
        return []
    return [word for word in found if word.startswith(start)]


def _flags(words: list[str]) -> list[str]:
    """The flags that this command's --helpfull lists; none if the words before it are wrong."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit, UsageError):
        main_of(words[0])([*words, "--helpfull"])
    return [f"--{name}" for name in _FLAG.findall(shown.getvalue())]
