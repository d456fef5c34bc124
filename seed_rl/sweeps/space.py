"""Search space of a sweep: a YAML file with the distribution of each flag.

    environment: catch
    agent: vtrace
    flagfile: ../small/catch_vtrace.flags   # relative to this file; left out: the preset of the pair, if any
    flags: {total_environment_frames: 40000}   # may be left out; the same in every trial
    space:
      learning_rate: {log_uniform: [1e-4, 1e-2]}
      unroll_length: {choice: [10, 20, 40]}
    trials: 40   # the default of --trials; may be left out, as may seeds

A range is `uniform`, `log_uniform` or `int_uniform`; `int_uniform` includes both ends.
"""

import dataclasses
import math
import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seed_rl.files import read_mapping

Value = bool | int | float | str

# Flags that `flags` and `space` may not contain: the sweep sets them, or the file has its own key for them.
RESERVED = ("environment", "agent", "flagfile", "seed", "logdir", "server_address")

_KEYS = ("environment", "agent", "flagfile", "flags", "space", "trials", "seeds")
_RANGES = ("uniform", "log_uniform", "int_uniform")
_KINDS = ("choice", *_RANGES)
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


class Distribution(NamedTuple):
    """The distribution that one flag is drawn from; its values are the choices, or the lowest and highest."""

    kind: str
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Space:
    """A space file.

    Whether the environment, the agent and the flags exist is not checked yet.

    Attributes:
      flagfile: is read before all else; None if there is none.
      flags: fixed values by flag.
      parameters: the distributions, by flag, in alphabetical order.
      trials: the file's default of `--trials`; None if it has none.
      seeds: the same of `--seeds`.
    """

    path: Path
    environment: str
    agent: str
    flagfile: Path | None
    flags: dict[str, Value]
    parameters: dict[str, Distribution]
    trials: int | None = None
    seeds: int | None = None


def as_text(value: Value) -> str:
    """A value as a flag takes it, with bools as YAML and absl write them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_flags(values: Mapping[str, Value]) -> list[str]:
    """The values as `--name=value`."""
    return [f"--{name}={as_text(value)}" for name, value in values.items()]


def read_space(path: Path) -> Space:
    """Reads and checks a space file, but not whether its flags exist; ValueError names what is wrong."""
    content = read_mapping("space", path)
    unknown = sorted(set(map(str, content)) - set(_KEYS))
    if unknown:
        raise ValueError(f"{path}: the key {unknown[0]!r} is unknown; choose among: {', '.join(_KEYS)}.")
    for key in ("environment", "agent"):
        if not isinstance(content.get(key), str):
            raise ValueError(f"{path} names no {key}; add a line {key}: NAME.")
    for key in ("trials", "seeds"):
        if key in content and not (type(content[key]) is int and content[key] > 0):
            raise ValueError(f"{path}: {key} must be a whole number above 0, not {content[key]!r}.")
    flagfile = content.get("flagfile")
    if not isinstance(flagfile, str | None):
        raise ValueError(f"{path}: flagfile must be one path.")
    flags, space = (_flags(path, key, content.get(key)) for key in ("flags", "space"))
    if not space:
        raise ValueError(f"{path} has no space; add space: with a distribution for each flag to search.")
    twice = sorted(set(flags) & set(space))
    if twice:
        raise ValueError(f"{path}: --{twice[0]} is in flags and in space; remove it from one of them.")
    return Space(
        path=path,
        environment=content["environment"],
        agent=content["agent"],
        flagfile=Path(os.path.realpath(path.parent / os.path.expanduser(flagfile))) if flagfile else None,
        flags={name: _value(f"{path}: --{name}", value) for name, value in flags.items()},
        parameters={name: _distribution(f"{path}: --{name}", value) for name, value in sorted(space.items())},
        trials=content.get("trials"),
        seeds=content.get("seeds"),
    )


def _flags(path: Path, key: str, content: Any) -> dict[str, Any]:
    """A checked mapping whose keys are names of flags that a space may set; {} if there is none."""
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: {key} must be a mapping whose keys are names of flags.")
    for name in content:
        if not re.fullmatch(r"\w+", name):
            raise ValueError(f"{path}: {name!r} in {key} is not a flag name; write it without dashes.")
        if name in RESERVED[:3]:
            raise ValueError(f"{path}: {name} does not belong in {key}; write it at the top level.")
        if name in RESERVED:
            raise ValueError(f"{path}: the sweep itself sets --{name} for every run; remove it from {key}.")
    return content


def _distribution(what: str, content: Any) -> Distribution:
    if not isinstance(content, dict) or len(content) != 1:
        raise ValueError(f"{what} needs one distribution, KIND: [...]; KIND is one of: {', '.join(_KINDS)}.")
    ((kind, values),) = content.items()
    if kind not in _KINDS:
        raise ValueError(f"{what}: the kind {kind!r} is unknown; choose one of: {', '.join(_KINDS)}.")
    if not isinstance(values, list):
        raise ValueError(f"{what}: {kind} needs a list in brackets.")
    if kind == "choice":
        if not values:
            raise ValueError(f"{what}: choice needs at least one value.")
        return Distribution(kind, tuple(_value(what, value) for value in values))
    return Distribution(kind, _range(what, kind, values))


def _range(what: str, kind: str, values: list[Any]) -> tuple[Value, Value]:
    numbers = [_value(what, value) for value in values]
    if len(numbers) != 2 or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):  # type: ignore[arg-type]
        raise ValueError(f"{what}: {kind} needs two numbers, [LOW, HIGH].")
    low, high = (float(n) for n in numbers)
    if kind == "int_uniform" and not (low.is_integer() and high.is_integer()):
        raise ValueError(f"{what}: int_uniform needs whole numbers.")
    if not math.isfinite(high - low) or (kind == "int_uniform" and max(-low, high) >= 2**53):
        raise ValueError(f"{what}: the range from {low:g} to {high:g} is too large to draw from.")
    if low >= high:
        raise ValueError(f"{what}: the lowest value, {low:g}, must be less than the highest, {high:g}.")
    if kind == "log_uniform" and low <= 0:
        raise ValueError(f"{what}: log_uniform needs a lowest value above 0, not {low:g}.")
    return (int(low), int(high)) if kind == "int_uniform" else (low, high)


def _value(what: str, value: Any) -> Value:
    """A number, string or bool; numbers that YAML 1.1 reads as text, such as 1e-5, are converted."""
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError(
        f"{what}: {reprlib.repr(value)} is not a valid flag value; write a number, text, true or false."
    )
