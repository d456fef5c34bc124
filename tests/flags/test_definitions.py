import dataclasses

import pytest
from absl import flags

from seed_rl.flags.definitions import define_options, read_options
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


@dataclasses.dataclass(frozen=True)
class Sharing(Options):
    """Shares a flag."""

    count: int = option(3, "The same, in other words.")


@dataclasses.dataclass(frozen=True)
class OtherDefault(Options):
    """Clashes."""

    count: int = option(4, "Another default.")


@dataclasses.dataclass(frozen=True)
class OtherType(Options):
    """Clashes."""

    count: float = option(3, "Another type.")


@dataclasses.dataclass(frozen=True)
class OtherChoices(Options):
    """Clashes."""

    mode: str = option("slow", "How.", choices=("slow", "slower"))


@dataclasses.dataclass(frozen=True)
class Bad(Options):
    """Has a field that no flag can hold."""

    raw: bytes = option(b"", "Bytes.")


def parsed(*args, classes=(Sample,), leave_out=()):
    values = flags.FlagValues()
    for config_class in classes:
        define_options(config_class, values, leave_out)
    values(["test", *args])
    return values


def test_values_come_back_with_their_types():
    args = ("--count=7", "--rate=2", "--noloud", "--path=a b=c", "--mode=fast", "--limit=1.5", "--seed=0")
    config = read_options(Sample, parsed(*args))
    assert config == Sample(7, 2.0, False, "a b=c", "fast", 1.5, 0)
    assert isinstance(config.rate, float) and isinstance(config.seed, int)


@pytest.mark.parametrize(("text", "number"), [("1e9", 10**9), ("1_000", 1000), ("-3", -3), ("2.0", 2)])
def test_whole_numbers_can_be_written_short(text, number):
    assert parsed(f"--count={text}").count == number


@pytest.mark.parametrize("text", ["1.5", "many", "", "inf", "nan"])
def test_other_things_are_no_whole_numbers(text):
    with pytest.raises(flags.IllegalFlagValueError):
        parsed(f"--count={text}")


def test_fixed_values_and_left_out_fields():
    values = parsed("--rate=4", leave_out=("count",))
    assert "count" not in values
    assert read_options(Sample, values, count=9) == Sample(count=9, rate=4.0)


def test_classes_share_a_flag_of_the_same_type_and_default():
    values = parsed("--count=8", classes=(Sample, Sharing))
    assert read_options(Sample, values).count == read_options(Sharing, values).count == 8


@pytest.mark.parametrize("other", [OtherDefault, OtherType, OtherChoices])
def test_classes_that_clash_are_refused(other):
    with pytest.raises(TypeError, match=rf"{other.__name__}\.(count|mode) .* clashes"):
        parsed(classes=(Sample, other))


def test_a_type_that_no_flag_can_hold_is_refused():
    with pytest.raises(TypeError, match=r"Bad\.raw is of type <class 'bytes'>"):
        define_options(Bad, flags.FlagValues())


def test_help_has_heading_unit_and_default():
    text = parsed().get_help()
    assert "\nSettings of the test:\n" in text
    assert "How fast, in metres per second.\n    (default: '0.5')" in text
    assert "<slow|fast>: How." in text


@pytest.mark.parametrize(
    ("given", "read"),
    [("~/a", "/home/me/a"), ("~", "/home/me"), ("a~/~b", "a~/~b"), ("./~", "./~"), ("", "")],
)
def test_a_tilde_at_the_beginning_of_a_path_is_the_home_directory(monkeypatch, given, read):
    monkeypatch.setenv("HOME", "/home/me")
    flag_values = flags.FlagValues()
    define_options(Sample, flag_values)
    flag_values(["main", f"--path={given}"])
    assert read_options(Sample, flag_values).path == read
