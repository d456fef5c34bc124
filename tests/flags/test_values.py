"""Python values become the text of flags that mean the same."""

import collections
import enum
from pathlib import Path

import numpy as np
import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.flags.values import flag_text


class Name(enum.Enum):
    PONG = "Pong"


class Size(enum.IntEnum):
    SMALL = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Pong", "Pong"),
        ("", ""),
        (7, "7"),
        (5e-4, "0.0005"),
        (True, "true"),
        (False, "false"),
        (Path("a b/c"), "a b/c"),
        (Name.PONG, "Pong"),
        (Size.SMALL, "3"),
        (np.float32(0.5), "0.5"),
        (np.float64(1e-5), "1e-05"),
        (np.longdouble(0.5), "0.5"),
        (np.int64(7), "7"),
        (np.bool_(True), "true"),
        (np.str_("a"), "a"),
        (np.array(3), "3"),
        ([32, 64], "32,64"),
        ((32, 64), "32,64"),
        (range(2), "0,1"),
        ([], ""),
        (["a", Path("b")], "a,b"),
        (np.array([32, 64]), "32,64"),
        ({}, "{}"),
        ({"items": 6}, '{"items": 6}'),
        ({"a": [1, (2.5, None)], "b": {"c": True}}, '{"a": [1, [2.5, null]], "b": {"c": true}}'),
        ({"a": np.arange(2), "b": Path("x"), "c": Name.PONG}, '{"a": [0, 1], "b": "x", "c": "Pong"}'),
        (collections.OrderedDict(a=np.float32(1)), '{"a": 1.0}'),
    ],
)
def test_a_value_is_written_as_the_flag_takes_it(value, text):
    assert flag_text("flag", value) == text


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        (print, "builtin_function_or_method"),
        (Name, "EnumType"),
        (1j, "complex"),
        (b"Pong", "bytes"),
        ({1, 2}, "set"),
        ([object()], "object"),
        ([1, [2]], "a list of lists"),
        ([{}], "a list of lists, dicts"),
        ([None], "None"),
        ({"a": {"b": object()}}, "object"),
        ({"a": float}, "type"),
        ({1: 2}, "dict"),
        (np.datetime64("2026-01-01"), "date"),
        (np.array([1j]), "complex"),
    ],
)
def test_any_other_value_is_refused_by_name(value, named):
    with pytest.raises(UsageError, match=r"^flag is or contains ") as caught:
        flag_text("flag", value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.__suppress_context__
