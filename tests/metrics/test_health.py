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


def test_a_run_that_learns_is_not_warned_about():
    rising = [{**GOOD, "mean_return": float(value)} for value in range(100)]
    assert sentences(rising) == []


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


def test_a_sign_must_last_for_a_share_of_the_run_and_for_some_reports():
    bad = {**GOOD, "kl_old_new": 0.45}
    assert sentences([GOOD, bad] * 50) == []
    assert sentences([bad] * 50, every=100) == []  # 5,000 of a million frames.
    assert sentences([bad] * 3, every=100_000) == []


def test_a_return_far_below_its_best_for_long_is_said_once():
    """Returns as of Breakout under settings that were made for Pong."""
    rising = [{**GOOD, "mean_return": 1.0 + number} for number in range(11)]
    fallen = [{**GOOD, "mean_return": 4.4}] * 20
    assert sentences(rising + fallen[:3]) == []
    said = sentences(rising + fallen)
    assert len(said) == 1
    assert "4.40" in said[0] and "11.00" in said[0] and "--checkpoint=best" in said[0]


def test_the_return_in_evaluation_counts_where_there_is_one():
    rising = [{"mean_return": 0.0, "mean_evaluation_return": float(number)} for number in range(11)]
    assert len(sentences([*rising, *[{"mean_return": 10.0, "mean_evaluation_return": 1.0}] * 20])) == 1
    # Until there is another one.
    assert len(sentences([*rising, {"mean_evaluation_return": 1.0}, *[{"mean_return": 10.0}] * 20])) == 1
    assert sentences([*rising, *[{"mean_return": 1.0}] * 20]) == []


def test_a_return_that_never_rose_is_noise():
    wobbling = [{**GOOD, "mean_return": -20.5 + 0.3 * math.sin(number)} for number in range(100)]
    assert sentences([*wobbling, *[{**GOOD, "mean_return": -20.9}] * 20]) == []


def test_metrics_of_other_agents_are_judged_only_where_they_have_them():
    assert sentences([{"policy_lag_first_updates": 5_000.0}] * 50) == []
    assert sentences([{**GOOD, "entropy": -3.0}] * 50, CONTINUOUS) == []


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
