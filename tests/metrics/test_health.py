import math

import pytest

from seed_rl.algorithms import registry
from seed_rl.metrics.health import Health
from seed_rl.types import ArraySpec

FOUR_ACTIONS = ArraySpec((), "int32", (0,), (3,))
CONTINUOUS = ArraySpec((1,), "float32", (-1.0,), (1.0,))
TOTAL = 1_000_000
GOOD = {"entropy": 1.1, "kl_old_new": 0.002, "policy_lag_first_updates": 7.0, "mean_return": 10.0}


VTRACE = ("entropy_cost", "passes")


def sentences(periods, action=FOUR_ACTIONS, every=10_000, flags=VTRACE):
    """Warnings on these periods, each so many frames after the one before."""
    health = Health(action, TOTAL, flags)
    return [
        sentence
        for number, metrics in enumerate(periods)
        for sentence in health.check({"env_frames": number * every, **metrics})
    ]


@pytest.mark.parametrize(
    ("agent", "metrics", "sign", "advice"),
    [
        ("vtrace", {"entropy": 0.06}, "entropy has collapsed", "raise --entropy_cost."),
        ("sac", {"entropy": 0.06}, "entropy has collapsed", "raise --target_entropy_fraction."),
        ("r2d2", {"entropy": 0.06}, "entropy has collapsed", "let it explore more."),
        ("vtrace", {"kl_old_new": 0.45}, "KL(old|new) is 0.45", "fewer times on each unroll (--passes)"),
        ("ppo", {"kl_old_new": 0.45}, "KL(old|new)", "lower --learning_rate, or train fewer times on each"),
        ("ppo", {"kl_old_new": 0.45}, "KL(old|new)", "(--epochs)"),
        ("a2c", {"kl_old_new": 0.45}, "KL(old|new)", "lower --learning_rate."),
        ("vtrace", {"policy_lag_first_updates": 60.0}, "60 updates old", "--batch_size"),
        ("sac", {"mean_return": -10.0}, "(-10.00)", "lower --actor_learning_rate. The best"),
        ("dqn", {"mean_return": -10.0}, "(-10.00)", "lower --learning_rate. The best"),
    ],
)
def test_a_lasting_sign_is_said_once_with_a_flag_of_the_agent_that_helps(agent, metrics, sign, advice):
    flags = registry.config_class(agent).defaults()
    (said,) = sentences([{"mean_return": 0.0}, GOOD, *[{**GOOD, **metrics}] * 50], flags=flags)
    assert sign in said and advice in said


def returns(values, name="mean_return", **metrics):
    return [{**metrics, name: value} for value in values]


BAD = {**GOOD, "kl_old_new": 0.45}
# As of Breakout under settings that were made for Pong.
RISING, FALLEN = returns([1.0 + n for n in range(11)], **GOOD), returns([4.4] * 20, **GOOD)
NOISE = returns([-20.5 + 0.3 * math.sin(n) for n in range(100)] + [-20.9] * 20, **GOOD)
EVALUATED = returns([float(n) for n in range(11)], "mean_evaluation_return", mean_return=0.0)
IN_TRAINING = returns([10.0] * 20)
# Periods, the frames and the action space if not the usual ones, and words of the one warning.
LASTING = {
    "a run that learns": (returns([float(n) for n in range(100)], **GOOD), {}, ()),
    "every other period": ([GOOD, BAD] * 50, {}, ()),
    "5,000 of a million frames": ([BAD] * 50, {"every": 100}, ()),
    "three periods": ([BAD] * 3, {"every": 100_000}, ()),
    "a return that falls for a while": (RISING + FALLEN[:3], {}, ()),
    "a return that falls": (RISING + FALLEN, {}, ("4.40", "11.00", "--checkpoint=best")),
    "a return that never rose": (NOISE, {}, ()),
    "evaluation": (EVALUATED + [{**IN_TRAINING[0], "mean_evaluation_return": 1.0}] * 20, {}, ("1.00",)),
    "no other evaluation yet": ([*EVALUATED, {"mean_evaluation_return": 1.0}, *IN_TRAINING], {}, ("1.00",)),
    "a return that is not evaluation's": (EVALUATED + returns([1.0] * 20), {}, ()),
    "old updates only": ([{"policy_lag_first_updates": 5_000.0}] * 50, {}, ()),
    "negative entropy": ([{**GOOD, "entropy": -3.0}] * 50, {"action": CONTINUOUS}, ()),
}


@pytest.mark.parametrize(("periods", "options", "words"), LASTING.values(), ids=LASTING)
def test_a_sign_that_lasts_is_said_once(periods, options, words):
    said = sentences(periods, **options)
    assert len(said) == bool(words)
    assert all(word in said[0] for word in words)


def entropies(*values):
    """Each for ten periods."""
    return [{**GOOD, "entropy": value} for value in values for _ in range(10)]


BOX = ArraySpec((3,), "float32")
TWO_CHOICES = ArraySpec((2,), "int32", (0, 0), (3, 3))


@pytest.mark.parametrize(
    ("action", "values", "exploded"),
    [
        (FOUR_ACTIONS, (1.38, 0.4, 1.35), True),
        (FOUR_ACTIONS, (1.38, 1.0, 1.35), False),  # It had not learned anything yet.
        (FOUR_ACTIONS, (1.38, 0.4, 1.1), False),
        (FOUR_ACTIONS, (1.38, 1.38, 1.38), False),
        (TWO_CHOICES, (2.77, 1.0, 2.7), True),
        (TWO_CHOICES, (2.77, 1.0, 1.38), False),
        (CONTINUOUS, (1.4, 1.4, 4.0), True),
        (CONTINUOUS, (1.4, -3.0, 0.6), True),  # It had learned, and is nearly uniform again.
        (CONTINUOUS, (1.4, 1.0, 2.5), False),
        (CONTINUOUS, (0.69, -3.0, -3.0), False),
        (BOX, (4.2, 4.2, 11.5), True),  # Three components, each with ten times the standard deviation.
        (BOX, (4.2, 4.2, 8.0), False),
        (BOX, (4.2, 4.2, math.inf), True),
    ],
)
def test_an_entropy_that_explodes_is_said_once(action, values, exploded):
    for flag in ("entropy_cost", "target_entropy_fraction", "learning_rate"):
        found = sentences(entropies(*values), action, flags=(flag,))
        said = [text for text in found if "collapsed" not in text]
        assert len(said) == exploded
        assert all("entropy has exploded" in text and text.endswith(f"lower --{flag}.") for text in said)


def test_a_run_without_steps_is_warned_about_once_for_each_stall():
    """PPO waits for an actor that never returns."""
    health = Health(FOUR_ACTIONS, TOTAL, VTRACE)
    frames = [0, 0, 100, *[200] * 6, *[300] * 4]
    said = [
        health.check({**GOOD, "env_frames": value, "seconds": 20.0 * period})
        for period, value in enumerate(frames)
    ]
    warnings = {period: sentences for period, sentences in enumerate(said) if sentences}
    assert list(warnings) == [6, 12]
    assert warnings[6] == warnings[12]
    assert "no environment has taken a step for 60 s; check that all actors run." in warnings[6][0]
