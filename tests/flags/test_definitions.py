import dataclasses
import enum
from pathlib import Path

import numpy as np
import pytest
from absl import flags

from seed_rl.flags.definitions import define_options, flag_text, read_options
from seed_rl.flags.errors import UsageError
from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class Sample(Options):
    """Settings of the test.

    A second paragraph.
    """

    count: int = option(3, "How many, in pieces.", at_least=1)
    rate: float = option(0.5, "How fast, in metres per second.", above=0)
    loud: bool = option(True, "Whether it makes noise.")
    path: str = option("x", "Where.", is_path=True)
    mode: str = option("slow", "How.", choices=("slow", "fast"))
    limit: float | None = option(None, "At most this many, in pieces.")
    seed: int | None = option(None, "Seed.")
    derived: int = 5


def made(**fields):
    """A class of options with these fields, each a type and a default."""
    fields = [(name, kind, option(default, "Help.")) for name, (kind, default) in fields.items()]
    return dataclasses.make_dataclass("Made", fields, bases=(Options,), frozen=True)


def parsed(*args, classes=(Sample,), leave_out=()):
    values = flags.FlagValues()
    for config_class in classes:
        define_options(config_class, values, leave_out)
    values(["test", *args])
    return values


def test_values_come_back_with_their_types():
    args = ("--count=7", "--rate=2", "--noloud", "--path=a b=c", "--mode=fast", "--limit=1.5", "--seed=0")
    config = read_options(Sample, parsed(*args).flag_values_dict())
    assert config == Sample(7, 2.0, False, "a b=c", "fast", 1.5, 0)
    assert isinstance(config.rate, float) and isinstance(config.seed, int)
    for text, number in (("1e9", 10**9), ("1_000", 1000), ("-3", -3), ("2.0", 2)):
        assert parsed(f"--count={text}").count == number
    for text in ("1.5", "many", "", "inf", "nan"):
        with pytest.raises(flags.IllegalFlagValueError):
            parsed(f"--count={text}")


def test_left_out_fields_have_their_defaults():
    values = parsed("--rate=4", leave_out=("count",))
    assert "count" not in values
    assert read_options(Sample, values.flag_values_dict()) == Sample(rate=4.0)


def test_classes_share_a_flag_of_the_same_type_and_default():
    sharing = made(count=(int, 3))
    values = parsed("--count=8", classes=(Sample, sharing)).flag_values_dict()
    assert read_options(Sample, values).count == read_options(sharing, values).count == 8


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (made(count=(int, 4)), r"Made\.count .* clashes"),
        (made(count=(float, 3)), r"Made\.count .* clashes"),
        (made(mode=(str, "slow")), r"Made\.mode .* clashes"),
        (made(raw=(bytes, b"")), r"Made\.raw is of type <class 'bytes'>"),
    ],
)
def test_classes_that_clash_and_types_that_no_flag_can_hold_are_refused(other, words):
    with pytest.raises(TypeError, match=words):
        parsed(classes=(Sample, other))


@pytest.mark.parametrize(
    ("given", "read"),
    [("~/a", "/home/me/a"), ("~", "/home/me"), ("a~/~b", "a~/~b"), ("./~", "./~"), ("", "")],
)
def test_a_tilde_at_the_beginning_of_a_path_is_the_home_directory(monkeypatch, given, read):
    monkeypatch.setenv("HOME", "/home/me")
    assert read_options(Sample, parsed(f"--path={given}").flag_values_dict()).path == read


class Name(enum.Enum):
    PONG = "Pong"


TEXTS = [
    *(("Pong", "Pong"), ("", ""), (7, "7"), (5e-4, "0.0005"), (True, "true"), (False, "false")),
    *((Path("a b/c"), "a b/c"), (Name.PONG, "Pong"), (enum.IntEnum("Size", {"SMALL": 3}).SMALL, "3")),
    *((np.float32(0.5), "0.5"), (np.longdouble(0.5), "0.5"), (np.int64(7), "7"), (np.bool_(True), "true")),
    *((np.str_("a"), "a"), (np.array(3), "3"), (np.array([32, 64]), "32,64")),
    *(([32, 64], "32,64"), ((32, 64), "32,64"), (range(2), "0,1"), ([], ""), (["a", Path("b")], "a,b")),
    *(({}, "{}"), ({"items": 6}, '{"items": 6}')),
    ({"a": [1, (2.5, None)], "b": {"c": True}}, '{"a": [1, [2.5, null]], "b": {"c": true}}'),
    ({"a": np.arange(2), "b": Path("x"), "c": Name.PONG}, '{"a": [0, 1], "b": "x", "c": "Pong"}'),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_a_value_is_written_as_the_flag_takes_it(value, text):
    assert flag_text("flag", value) == text


NONE = [
    *((object(), "object"), (print, "builtin_function_or_method"), (Name, "EnumType"), (1j, "complex")),
    *((b"Pong", "bytes"), ({1, 2}, "set"), ([object()], "object"), ([1, [2]], "a list of lists")),
    *(([{}], "a list of lists, dicts"), ([None], "None"), ({"a": {"b": object()}}, "object")),
    *(({1: 2}, "dict"), (np.datetime64("2026-01-01"), "date"), (np.array([1j]), "complex")),
]


@pytest.mark.parametrize(("value", "named"), NONE)
def test_any_other_value_is_refused_by_name(value, named):
    with pytest.raises(UsageError, match=r"^flag is or contains ") as caught:
        flag_text("flag", value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.__suppress_context__
