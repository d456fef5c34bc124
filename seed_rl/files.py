"""Writes files completely or not at all, appends lines, and reads JSON and YAML that others may have written.

Needs only the standard library, and PyYAML for YAML.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

# Limits on untrusted JSON and YAML: depth, number of values, and magnitude of an integer.
_DEEPEST, _MOST_VALUES, _LARGEST_INT = 50, 1_000_000, 2**64


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, and replaces `path` with it once it is complete.

    If anything fails, `path` stays as it was and the temporary file is removed, since a full disk needs the
    space. One that a killed process has left is replaced; if it is a link, nothing is written through it.
    OSError: the file cannot be written.
    """
    temporary = temporary_name(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def temporary_name(path: str | Path) -> str:
    """Name that `replacing` gives a file until it is complete; a process that is killed may leave it."""
    return f"{path}.tmp"


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file (UTF-8); see `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def set_aside(path: Path) -> Path:
    """Renames a damaged file, in its directory, to a name that is free; returns the new path, or OSError."""
    names = (path.with_name(f"{path.name}.damaged{n}") for n in itertools.chain([""], itertools.count(2)))
    free = next(name for name in names if not os.path.lexists(name))
    return path.rename(free)


def shortened(path: Path) -> Path:
    """A path for messages: relative to the current directory if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
      ValueError: it is not JSON, not UTF-8, nested too deeply, or has too large a number; a few words.
    """
    return _checked(json.loads, text)


def read_json(path: Path) -> Any:
    """The value in a JSON file; OSError if it cannot be read, and ValueError as `parse_json`."""
    return parse_json(path.read_text(encoding="utf-8"))


def read_yaml(path: Path) -> Any:
    """The value in a YAML file; OSError if it cannot be read, and ValueError as `parse_json`."""
    import yaml  # type: ignore[import-untyped]

    try:
        return _checked(yaml.safe_load, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not a text file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}{getattr(error, 'problem', None) or 'it cannot be parsed'}") from None
    except (
        AttributeError,
        KeyError,
        TypeError,
        OverflowError,
    ) as error:  # At a date that is none, say.
        raise ValueError(f"it cannot be parsed: {error}") from None


def read_mapping(flag: str, path: Path) -> dict[Any, Any]:
    """The mapping in a YAML file that a flag names.

    Raises:
      ValueError: it cannot be read, or is not a mapping; one sentence.
    """
    try:
        content = read_yaml(path)
    except OSError as error:
        raise ValueError(f"--{flag}={path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise ValueError(f"--{flag}={path} is not valid YAML ({error}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"--{flag}={path} is not a YAML mapping; write KEY: VALUE lines.")
    return content


def _checked(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    """The value, if it is of a reasonable depth and size. YAML's aliases can make it larger than any text."""
    try:
        value = parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(_DEEPEST):
        if any(type(item) is int and abs(item) >= _LARGEST_INT for item in level):
            raise ValueError("a number in it is too large")
        level = [child for item in level for child in _children(item)]
        if not level:
            return value
        if len(level) > _MOST_VALUES:
            raise ValueError("it has too many values")
    raise ValueError("it is nested too deeply")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def append_line(path: str | Path, line: str) -> None:
    """Appends a line (UTF-8, without its line feed) to a file, which is created if there is none.

    A full disk or a crash may have left an incomplete last line. It is terminated first, so that the new line
    does not become part of it. OSError: the line cannot be written completely.
    """
    with open(path, "ab+") as file:
        is_torn = False  # Nor is anything but a regular file.
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            is_torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" * is_torn + line.encode() + b"\n")
