"""Odd environments of users, and the required outcome of each: the next report is one more line."""

import contextlib
import logging
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.environments.making import suite_spec
from tests.environments.odd import (
    FIRST_ENV,
    HANGING,
    LENGTH,
    OUR_KEYS,
    WHEN,
    Odd,
    episodes_of,
    keeps_trying,
    odd_batch,
    raises,
    returns,
    sleeps,
    with_part,
)


class NamelessError(Exception):
    def __str__(self):
        raise ValueError("no text")


class NamelessKeysDict(dict):
    def __getitem__(self, key):
        raise NamelessError


DICT = spaces.Dict(position=spaces.Box(-1, 1, (2,), np.float32), goal=spaces.Discrete(3))
DIGITS = spaces.MultiDiscrete([3, 4], start=[1, 0])
EACH = spaces.Box(np.int16([0, -1]), np.int16([9, 8]), dtype=np.int16)
SCREEN = spaces.Box(0, 9, (2, 2), np.uint8)
WIDE = spaces.Box(-(2**31), 2**31 - 1, (1,), np.int32)
WIDEST = spaces.Box(-(2**62), 2**62, (1,), np.int64)


def step(function, clause):
    return {"step": function}, f"step() {clause}"


def rewarded(reward, text):
    return {"step": with_part(1, reward)}, f"step() returned {text}"


def observed(space, value, shown, rule="", at=""):
    """`value` is observed in a space; None: that of `Odd`. `at` is the index that the message has."""
    rule = rule if rule in ("", FINITE) else f", but its observation space says {rule}"
    place = f" at [{at}]" if isinstance(at, int) else at
    clause = f"step() returned {shown} for the observation{place}{rule}"
    return {"observation_space": space, "observation": returns(value)}, clause


def box(low, high, dtype):
    return spaces.Box(low, high, (1,), dtype)


WHOLE = [LENGTH, LENGTH]  # The return and the agent steps of an episode.
FINITE = ", but it must be finite and less than"
TIMEOUT = "did not return within 1 s (--env_step_timeout_secs)"
# (fault of an environment in agent step 3, text of the message).
FAILURES = {
    # Whatever it raises.
    "raises": step(raises(OSError("no device")), "raised OSError: no device"),
    "exits": step(raises(SystemExit(3)), "raised SystemExit: 3"),
    "raises lines": step(raises(OSError("a\nb\x1b[2J")), r"raised OSError: a\nb\x1b[2J"),
    "raises without text": step(raises(NamelessError()), "raised NamelessError"),
    "hangs": step(sleeps, TIMEOUT),
    "hangs on": step(keeps_trying, TIMEOUT),
    # Whatever it returns.
    "nothing": step(returns(None), "returned None of type NoneType, not (observation, reward,"),
    "no end": step(with_part(2, None), "returned None of type NoneType for terminated"),
    "ends": step(with_part(2, np.array([True, False])), "returned array([ True, False])"),
    "no info": step(with_part(4, None), "returned the info None of type NoneType"),
    "a reward of shape (1,)": rewarded(np.ones(1), "array([1.]) of type ndarray for the reward"),
    "no reward": rewarded(None, "None of type NoneType for the reward"),
    "a NaN reward": rewarded(np.nan, f"the reward nan{FINITE}"),
    "a reward beyond float32": rewarded(1e39, "the reward 1e+39"),
    "a reward that no network takes": rewarded(1e15, "the reward 1e+15"),
    "an infinite reward of a small dtype": rewarded(np.float16(np.inf), f"the reward inf{FINITE}"),
    "the least int64 as reward": rewarded(np.int64(-(2**63)), "the reward -9.2"),
    "2^63 as reward": rewarded(np.uint64(2**63), "the reward 9.22337e+18"),
    "a huge int as reward": rewarded(10**400, "1000"),
    "a Decimal as reward": rewarded(Decimal(1), "Decimal('1') of"),
    "a Fraction as reward": rewarded(Fraction(1), "Fraction(1, 1)"),
    "a reward beyond float64": rewarded(np.longdouble("1e400"), f"the reward inf{FINITE}"),
    "a masked reward": rewarded(np.ma.masked, "masked of type"),
    "text as reward": rewarded("1.0", "'1.0' of type str for the reward"),
    "a complex reward": rewarded(1j, "1j of type complex for the reward"),
    "a time as reward": rewarded(np.timedelta64(1, "s"), "np.timed"),
    # Observations: shapes, types and values.
    "no observation": observed(None, None, "object[]"),
    "another shape": observed(None, np.zeros(4), "float64[4]"),
    "NaN": observed(None, [0.0, np.nan, 0.0], "nan", at=1),
    "inf": observed(None, [0.0, 0.0, np.inf], "inf", at=2),
    "beyond float16": observed(box(-10, 10, np.float16), np.array([1e5]), "100000.0", FINITE, at=0),
    **{
        f"{value} as {value.dtype} in {space}": observed(
            box(-5, 5, space), np.array([value]), shown, FINITE, at=0
        )
        for space in (np.float16, np.float32, np.float64, np.longdouble)
        for value, shown in (
            (np.float16(np.inf), "inf"),
            (np.float16(np.nan), "nan"),
            (np.float32(-np.inf), "-inf"),
            (np.float64(1e39), "1e+39"),
            (np.longdouble("1e400"), "inf"),
            (np.int64(-(2**63)), "-9223372036854775808"),
            (np.uint64(2**64 - 1), "18446744073709551615"),
        )
    },
    **{
        f"{value} in a whole {space.__name__}": observed(box(low, high, space), [value], value, rule, at=0)
        for space, low, high, value, rule in (
            (np.int64, -np.inf, np.inf, 2**63, FINITE),
            (np.int64, -np.inf, np.inf, -(2**63), FINITE),
            (np.uint64, 0, 2**64 - 1, 2**64 - 1, FINITE),
            (np.int32, -np.inf, np.inf, 2**63, FINITE),
            (np.int32, -np.inf, np.inf, 2**31, "-2147483648 to 2147483647"),
            (np.int8, -5, 5, 250, "-5 to 5"),
        )
    },
    "a huge int": observed(box(-9, 9, np.int64), [10**30], "object[1]", "int64[1]"),
    "an int below an unsigned space": observed(box(0, 9, np.uint8), [-1], "int64[1]", "uint8[1]"),
    "bounds of each number": observed(EACH, np.uint64([9, 2**63]), 2**63, FINITE, at=1),
    "Decimals": observed(None, [Decimal(1)] * 3, "object[3]", "float32[3]"),
    "digits as text": observed(None, ["1", "2", "3"], "<U1[3]"),
    "a masked number": observed(None, np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "nan", FINITE, at=1),
    "a number above Discrete": observed(spaces.Discrete(6), 7, 7, "0 to 5"),
    "a number below Discrete's start": observed(spaces.Discrete(6, start=-2), -3, -3, "-2 to 3"),
    "a digit below MultiDiscrete's start": observed(DIGITS, np.array([0, 3]), 0, "1 to 3", at=0),
    "a bit of 2": observed(spaces.MultiBinary(4), np.int8([0, 1, 2, 0]), 2, "0 to 1", at=2),
    "a wider integer": observed(WIDE, np.array([2**31]), 2**31, "-214748", at=0),
    "a pixel above its bound": observed(SCREEN, np.full((2, 2), 10, np.uint8), 10, "0 to 9", at=" at [0, 0]"),
    "an int that no network takes": observed(WIDEST, np.array([2**60]), 2**60, FINITE, at=0),
    "a missing key": observed(DICT, {"goal": 1}, "no array", at=" 'position' (KeyError: 'position')"),
    "an entry outside": (
        {"observation_space": DICT, "observation": lambda honest: {**honest, "goal": 3}},
        "step() returned 3 for the observation 'goal', but its observation space says 0 to 2",
    ),
    "a nameless error": observed(DICT, NamelessKeysDict(goal=1), "no array", at=" 'goal' (NamelessError)"),
}


@pytest.fixture
def play(caplog):
    """Plays a batch of an odd environment, whose replacement is valid, and of a valid one.

    Gives the messages, and for each environment its episodes as (return, agent steps).
    """

    def play(config, max_failures=1, for_ever=False):
        others = config if for_ever else {k: v for k, v in config.items() if k == "observation_space"}
        # Only what hangs has a limit: a full garbage collection may take 0.9 s if three tests share a core.
        limit = 1.0 if any(method in HANGING for method in config.values()) else 0.0
        batch, _ = odd_batch(config, others=others, max_failures=max_failures, timeout=limit)
        caplog.set_level(logging.WARNING)
        with contextlib.closing(batch):
            batch.reset([5, 6])
            found = episodes_of(batch, 3 * LENGTH)
        episodes = [[figures for env, *figures in found if env == index] for index in (0, 1)]
        return [record.getMessage() for record in caplog.records], episodes

    return play


@pytest.mark.parametrize(("config", "clause"), FAILURES.values(), ids=FAILURES)
def test_a_step_that_fails_is_told_in_one_line_and_the_environment_replaced(play, config, clause):
    messages, (replaced, beside) = play(config)
    (message,) = messages
    start = f"Environment {FIRST_ENV} failed in episode 1 at agent step {WHEN}: "
    assert message.startswith(start + clause)
    assert message.endswith("; replacing it (1 of 1).") and message.isprintable() and len(message) < 500
    assert beside == [WHOLE] * 3
    assert replaced == [WHOLE] * 2  # Three agent steps and the reset were lost.


METHODS = {
    "make raises": ({"make": raises(OSError("no device"))}, "failed: make() raised OSError: no device"),
    "make hangs": ({"make": sleeps}, "failed: make() did not return within 1 s"),
    "reset raises": ({"reset": raises(KeyError("level"))}, "failed: reset() raised KeyError: 'level'"),
    "reset exits": ({"reset": raises(SystemExit())}, "failed: reset() raised SystemExit"),
    "reset hangs": ({"reset": sleeps}, "failed: reset() did not return within 1 s"),
    "no info": ({"reset": lambda honest: honest[0]}, "failed: reset() returned array(["),
    "no dict": ({"reset": with_part(1, None)}, "failed: reset() returned the info None"),
    "NaN": (
        {"reset": lambda honest: (honest[0] * np.nan, {})},
        "failed: reset() returned nan for the observation at [0], but it must be finite",
    ),
    "close raises": ({"close": raises(OSError("busy"))}, "close() raised OSError: busy"),
    "close hangs": ({"close": sleeps}, "close() did not return within 1 s"),
}


@pytest.mark.parametrize(("config", "clause"), METHODS.values(), ids=METHODS)
def test_other_methods_may_fail_too(play, config, clause):
    messages, episodes = play(config)
    (message,) = messages
    assert f"Environment {FIRST_ENV}" in message and clause in message
    assert episodes == [[WHOLE] * 3] * 2


@pytest.mark.parametrize("config", [FAILURES["raises"][0], FAILURES["NaN"][0], METHODS["reset raises"][0]])
def test_an_environment_that_always_fails_ends_it_with_one_sentence(play, config):
    sentence = rf"^Environment {FIRST_ENV} failed.*; this was failure 4 .*--max_environment_failures\.$"
    with pytest.raises(EnvironmentFailedError, match=sentence) as caught:
        play(config, max_failures=3, for_ever=True)
    assert str(caught.value).isprintable()


def test_an_interrupt_is_not_a_failure(play):
    with pytest.raises(KeyboardInterrupt):
        play({"step": raises(KeyboardInterrupt())})


def cast(dtype):
    return {"observation": lambda honest: honest.astype(dtype)}


# Unusual values that are right.
ALLOWED = {
    "a reward of NumPy": {"step": with_part(1, np.float32(1))},
    "a reward without dimensions": {"step": with_part(1, np.array(1.0))},
    **{
        f"a reward of type {type(value).__name__}": {"step": with_part(1, value)}
        for value in (
            *(np.float16(1), np.longdouble(1), np.int8(1), np.uint64(1), np.bool_(True)),
            *(np.ma.array(1.0), np.array(1, np.uint8), True),
        )
    },
    **{f"an observation of {dtype}": cast(dtype) for dtype in (">f4", "float16", "float64", "longdouble")},
    "an array without masked numbers": {"observation": np.ma.array},
    "numbers that start high": {
        "observation_space": spaces.Discrete(LENGTH + 1, start=2**60),
        "observation": lambda honest: np.uint64(honest),
    },
    "ends of NumPy": {"step": with_part(2, np.bool_(False))},
    "a list": {"step": list},
    "floats outside of their Box": {"observation": returns(np.full(3, 11, np.float32))},
    "wider integers that fit": {
        "observation_space": box(-9, 9, np.int32),
        "observation": returns(np.array([9])),
    },
    "more keys than the space": {
        "observation_space": DICT,
        "observation": lambda honest: {**honest, "more": 1},
    },
}


@pytest.mark.parametrize("config", ALLOWED.values(), ids=ALLOWED)
def test_what_is_unusual_and_right_changes_nothing(play, config):
    messages, episodes = play(config)
    assert not messages
    assert episodes == [[WHOLE] * 3] * 2


@pytest.mark.parametrize("length", [WHEN, LENGTH])
@pytest.mark.parametrize("truncates", [False, True])
def test_no_entry_of_an_environments_info_is_taken_for_ours(length, truncates):
    for key in OUR_KEYS:
        kind = {"step": with_part(4, {key: 100.0}), "length": length, "truncates": truncates}
        batch, _ = odd_batch(others=kind, num_envs=1)
        batch.reset()
        assert episodes_of(batch, 3 * (length + truncates)) == [(0, length, length)] * 3


def having(name, value):
    """Makes an environment with this attribute."""
    return lambda _: setattr(env := Odd(), name, value) or env


SPACE = "it must be one of gymnasium.spaces"
LACKS = {
    "make raises": (raises(OSError("no device")), r"make\(\) raised OSError: no device"),
    "make exits": (raises(SystemExit(1)), r"make\(\) raised SystemExit: 1"),
    "no space": (having("observation_space", [3]), f"'s observation_space is of type list; {SPACE}"),
    "no space of actions": (having("action_space", 4), f"'s action_space is of type int; {SPACE}"),
}


@pytest.mark.parametrize(("make", "sentence"), LACKS.values(), ids=LACKS)
def test_the_learner_says_in_one_sentence_why_it_cannot_look_at_the_spaces(make, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        suite_spec(Suite(EnvironmentConfig, lambda config, seed: make(None)), EnvironmentConfig(), 0)
    assert re.fullmatch(r"[^\n]*[.]", str(caught.value))
