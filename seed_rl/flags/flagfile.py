"""Flagfiles: one `--name=value` per line, `#` or `//` before comments, `--flagfile=OTHER` to include another.

absl can read them, too, but searches the current directory for an included file. Here, the path is relative
to the file that includes it, so that presets work from any directory. A flagfile may also be shared by the
learner, the actors and the local launcher: each of them skips the flags of the others. The project's own
ones, and the search spaces of sweeps, are in configs/.
"""

import codecs
import os
from collections.abc import Collection, Iterable
from pathlib import Path

import seed_rl
from seed_rl.flags.errors import UsageError


def configs_directory() -> Path:
    """Directory of the presets: inside the package when installed, beside it in a clone."""
    package = Path(seed_rl.__file__).parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def find_config(path: str, kind: str) -> Path:
    """The file that a flag names: at that path, or else, with or without `configs/` in front, in configs/.

    So the commands in the docs work in any directory, and where there is no clone. `kind` is a pattern for
    the files in configs/ that a wrong path may mean.

    Raises:
      UsageError: there is no such file, but one in configs/ has its name, with or without its suffix.
    """
    given, configs = Path(os.path.expanduser(path)), configs_directory()
    if os.path.lexists(given):
        return given
    own = configs / path.removeprefix("configs/")
    if os.path.isfile(own):
        return own
    names = (given.name, given.name + Path(kind).suffix)
    meant = [str(file.relative_to(configs)) for file in configs.glob(kind) if file.name in names]
    if meant:
        raise UsageError(f"There is no file {path}; did you mean {' or '.join(sorted(meant))}?")
    return given


def find_preset(configs: Path, environment: str, agent: str, game: str | None = None) -> Path | None:
    """The flagfile for a small machine: the game's, else the environment's, else the only one.

    They are in `configs`/small and named ENVIRONMENT_AGENT or ENVIRONMENT_AGENT_GAME. `agent` is one of
    `algorithms.registry.choices`; `game` is the `--game` that was given, None if the preset determines it.
    """
    directory, stem = configs / "small", f"{environment}_{agent}"
    exact = [f"{stem}_{game.lower()}"] if game and "/" not in game else []
    for name in (*exact, stem):
        if os.path.isfile(directory / f"{name}.flags"):
            return directory / f"{name}.flags"
    candidates = [path for path in sorted(directory.glob("*.flags")) if path.name.startswith(f"{stem}_")]
    return candidates[0] if len(candidates) == 1 else None


_COMMENTS = ("#", "//")

# Flagfiles that include one another.
_DEEPEST = 50


def expand_flagfiles(args: Iterable[str]) -> list[str]:
    """Replaces each `--flagfile=PATH` with the lines of its file, in place; later flags win (UsageError)."""
    return [arg for _, lines in in_parts(args) for arg in lines]


def in_parts(args: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The arguments in order: the lines of each flagfile with its path, and those between them with ''.

    Raises:
      UsageError: a file cannot be read, contains a line that is not a flag, or includes itself.
    """
    parts: list[tuple[str, list[str]]] = [("", [])]
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            parts[-1][1].extend((arg, *rest))
            break
        path = _flagfile_path(arg)
        if path is None:
            parts[-1][1].append(arg)
            continue
        if "=" not in arg:
            path = next(rest, "")
        if not path:
            raise UsageError("--flagfile needs a path: --flagfile=PATH.")
        parts += [(path, _read(find_config(path, "**/*.flags"), including=())), ("", [])]
    return [part for part in parts if part[1]]


def without(lines: Iterable[str], names: Collection[str]) -> list[str]:
    """The lines of a flagfile but those that set flags with these names."""
    return [line for line in lines if _bare_name(line, names) not in names]


def _flagfile_path(arg: str) -> str | None:
    """The flagfile's path in `arg`: '' if it is the next argument, None for any other flag."""
    name, _, path = arg.partition("=")
    return path.strip() if name in ("--flagfile", "-flagfile") else None


def _bare_name(line: str, names: Collection[str]) -> str:
    """The flag that a line sets; `--noNAME` sets NAME."""
    name = line.lstrip("-").partition("=")[0].strip()
    return name[2:] if name.startswith("no") and name[2:] in names else name


def _read(path: Path, including: tuple[Path, ...]) -> list[str]:
    try:
        path = Path(os.path.realpath(path))
        content = path.read_bytes()  # Editors of Windows write UTF-8 or UTF-16 with a mark at the start.
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: another encoding, or a path that is none.
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UsageError(f"The flagfile {path} cannot be read ({reason}).") from None
    if path in including:
        raise UsageError(f"The flagfile {path} includes itself; remove its --flagfile line.")
    if len(including) > _DEEPEST:
        raise UsageError(f"The flagfile {path} is included by more than {_DEEPEST} others; use fewer.")
    lines: list[str] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith(_COMMENTS):
            continue
        if not line.startswith("-"):
            raise UsageError(
                f"Line {number} of the flagfile {path} is not a flag: {line!r}; write --name=value."
            )
        included = _flagfile_path(line)
        if included is None:
            lines.append(line)
        else:
            lines += _read(path.parent / os.path.expanduser(included), (*including, path))
    return lines
