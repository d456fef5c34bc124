"""Turns an Options class into absl flags, and absl flags back into a validated object of that class."""

import enum
import json
import os
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from absl import flags

from seed_rl.flags.errors import UsageError
from seed_rl.options import OptionField, Options

OptionsT = TypeVar("OptionsT", bound=Options)


class _WholeNumberParser(flags.IntegerParser):
    """Integers, also written as 1e9 or 1_000_000."""

    def convert(self, argument: Any) -> int:
        try:
            return super().convert(argument)
        except ValueError:
            number = float(argument)
            if not number.is_integer():
                raise
            return int(number)


class _PathParser(flags.ArgumentParser):
    """Paths, with `~` and `~NAME` at their beginning replaced."""

    def parse(self, argument: Any) -> str:
        return os.path.expanduser(argument)


def define_options(
    config_class: type[Options], flag_values: flags.FlagValues, leave_out: Collection[str] = ()
) -> None:
    """Defines a flag for every option, under the first line of its class's docstring as the heading.

    Fields in `leave_out` get no flag. A flag that exists is shared if its type and default are the same.

    Raises:
      TypeError: a field is not an int, float, bool or str (or None), or clashes with a flag that exists.
    """
    heading = (config_class.__doc__ or config_class.__name__).strip().splitlines()[0].rstrip(".")
    parts = config_class.parts().values()
    of_parts = {leaf.name for part in parts for leaf in part.leaves()}
    for leaf in options_of(config_class):
        if leaf.name in leave_out or leaf.name in of_parts:
            continue
        flag = _make_flag(config_class, leaf)
        if leaf.name not in flag_values:
            flags.DEFINE_flag(flag, flag_values, module_name=heading)
            continue
        new, present = _describe(flag), _describe(flag_values[leaf.name])
        if new != present:
            raise TypeError(
                f"{config_class.__name__}.{leaf.name} ({new}) clashes with another class's flag "
                f"({present}); give both the same type and default, or rename one."
            )
    for part in parts:
        define_options(part, flag_values, leave_out)


def read_options(config_class: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """The object of a class with the values that are its options', by name.

    Raises:
      UsageError: a value is invalid; the message is that of the class's own validation.
    """
    try:
        return config_class.of(**{name: values[name] for name in option_names(config_class) & values.keys()})
    except ValueError as error:
        raise UsageError(str(error)) from error


def options_of(config_class: type[Options]) -> list[OptionField]:
    """The options that become flags: those made with `option`, including those in parts."""
    return [leaf for leaf in config_class.leaves() if "help" in leaf.metadata]


def option_names(*config_classes: type[Options]) -> set[str]:
    """The names of the flags of these classes."""
    return {leaf.name for config_class in config_classes for leaf in options_of(config_class)}


def _make_flag(config_class: type[Options], leaf: OptionField) -> flags.Flag:
    kind, *others = [kind for kind in leaf.kinds if kind is not NoneType]
    text, choices = leaf.metadata["help"], leaf.metadata["choices"]
    if kind is str and choices:
        return flags.EnumFlag(leaf.name, leaf.default, text, list(choices))
    if kind is bool:
        return flags.BooleanFlag(leaf.name, leaf.default, text)
    of_text = _PathParser if leaf.metadata["is_path"] else flags.ArgumentParser
    parsers: dict[Any, Any] = {int: _WholeNumberParser, float: flags.FloatParser, str: of_text}
    if others or kind not in parsers:
        found = " | ".join(map(str, leaf.kinds))
        raise TypeError(
            f"{config_class.__name__}.{leaf.name} is of type {found}, which flags do not support; use int, "
            "float, bool or str (each may be `| None`)."
        )
    return flags.Flag(parsers[kind](), flags.ArgumentSerializer(), leaf.name, leaf.default, text)


def _describe(flag: flags.Flag) -> str:
    return f"{flag.flag_type()}{getattr(flag.parser, 'enum_values', '')}, default {flag.default}"


def flag_text(name: str, value: Any) -> str:
    """The text after `--name=` for a number, a bool, text, a path, a list of these, or a dict (JSON).

    Members of an enum count as their values, and NumPy's scalars and arrays as Python's.

    Raises:
      UsageError: the value, or one in it, is of another type.
    """
    try:
        plain = json.loads(json.dumps(value, default=_plain))
        if isinstance(plain, list) and any(isinstance(item, list | dict | NoneType) for item in plain):
            raise TypeError("a list of lists, dicts or None")
        if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            raise TypeError("a dict with keys that are no text")
    except TypeError as error:
        raise UsageError(
            f"{name} is or contains {error}; give a number, a bool, text, a path, a list of these, or a dict "
            "with values that JSON has."
        ) from None
    if isinstance(plain, list):
        return ",".join(flag_text(name, item) for item in plain)
    if isinstance(plain, dict):
        return json.dumps(plain)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _plain(value: Any) -> Any:
    """A value of a type that JSON has in the place of one of another type (TypeError)."""
    match value:
        case enum.Enum():
            return value.value
        case np.floating():
            return float(value)
        case np.generic() | np.ndarray():
            return value.tolist()
        case os.PathLike():
            return os.fspath(value)
        case range():
            return list(value)
    raise TypeError(f"a value of type {type(value).__name__}")
