"""Python values as the text of flags."""

import enum
import json
import os
from types import NoneType
from typing import Any

import numpy as np

from seed_rl.flags.errors import UsageError


def flag_text(name: str, value: Any) -> str:
    """The text after `--name=` for a number, a bool, text, a path, a list of these, or a dict (JSON).

    Members of an enum count as their values, and NumPy's scalars and arrays as Python's.

    Raises:
      UsageError: the value, or one in it, is of another type.
    """
    try:
        plain = _plain(value)
        if isinstance(plain, list) and any(isinstance(item, list | dict | NoneType) for item in plain):
            raise TypeError("a list of lists, dicts or None")
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
    """The value as JSON has it; TypeError if it has none of its kind."""
    match value:
        case enum.Enum():
            return _plain(value.value)
        case np.floating():
            return float(value)
        case np.generic() | np.ndarray():
            return _plain(value.tolist())
        case bool() | int() | float() | str() | None:
            return value
        case os.PathLike():
            return os.fspath(value)
        case list() | tuple() | range():
            return [_plain(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"a value of type {type(value).__name__}")
