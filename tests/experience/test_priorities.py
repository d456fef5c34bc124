"""Probabilities, weights, and what is drawn, without any transitions."""

import numpy as np
import pytest

from seed_rl.experience.priorities import Draws, EqualPriorities, SumTree, importance_weights

EXPONENTS = (0.5, 0.4)


def uniform(size):
    return Draws(EqualPriorities(size), 0.0, 0.4)


def prioritized(size):
    return Draws(SumTree(size), *EXPONENTS)


def test_importance_weights_are_those_of_the_equation():
    probabilities = np.array([0.1, 0.4, 0.05])
    weights = [(1 / (1000 * p)) ** 0.6 for p in probabilities]
    expected = [w / max(weights) for w in weights]
    np.testing.assert_allclose(importance_weights(probabilities, 0.6), expected, rtol=1e-6)


def test_priorities_are_raised_to_the_exponent_and_stay_above_0():
    np.testing.assert_allclose(prioritized(1).scaled(np.array([4.0, 9.0, 0.0])), [2, 3, 1e-3])


@pytest.mark.parametrize("make", [uniform, prioritized])
def test_only_what_may_be_drawn_is_drawn_and_counted(make):
    """Against a set, with anything entered and taken away at random."""
    draws, random, expected = make(50), np.random.default_rng(0), set()
    for turn in range(200):
        indices = random.permutation(min(50, turn + 1))[:5]
        may_be_drawn = random.random(len(indices)) < 0.5
        draws.enter(indices, may_be_drawn)
        expected = (expected - set(indices.tolist())) | set(indices[may_be_drawn].tolist())
        assert draws.count == len(expected)
        np.testing.assert_array_equal(draws.get(np.arange(50)) > 0, np.isin(np.arange(50), list(expected)))
        if expected:
            drawn, weights = draws.draw(7, random)
            assert set(drawn.tolist()) <= expected
            assert weights.dtype == np.float32
            assert len(drawn) == len(weights) == 7
    assert len(expected) > 5


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_priorities_change_nothing(bad):
    draws = Draws(SumTree(4), 1.0, 0.4)
    draws.enter(np.arange(4), np.ones(4, bool))
    with pytest.raises(ValueError, match="must be finite"):
        draws.update(np.array([1, 2]), np.array([2.0, bad]))
    assert draws.highest == 1.0
    np.testing.assert_array_equal(draws.get(np.arange(4)), np.ones(4))


def filled(priorities):
    tree = SumTree(len(priorities))
    tree.set(np.arange(len(priorities)), priorities)
    return tree


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 8, 100])
def test_find_walks_the_line_of_priorities(capacity):
    rng = np.random.default_rng(capacity)
    priorities = rng.integers(1, 9, capacity).astype(float)
    tree = filled(priorities)
    assert tree.total == priorities.sum()
    masses = np.arange(0, tree.total, 0.5)
    expected = np.searchsorted(np.cumsum(priorities), masses, side="right")
    np.testing.assert_array_equal(tree.find(masses), expected)


@pytest.mark.parametrize("capacity", [5, 16, 100])
def test_totals_stay_right_through_many_changes(capacity):
    rng, tree, expected = np.random.default_rng(0), SumTree(capacity), np.zeros(capacity)
    for _ in range(300):
        indices = rng.integers(0, capacity, 4)
        values = rng.random(4) * 10.0 ** rng.integers(-6, 6, 4)
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            expected[index] = value
    np.testing.assert_array_equal(tree.get(np.arange(capacity)), expected)
    assert tree.total == pytest.approx(expected.sum(), rel=1e-12)


def test_frequencies_are_proportional_to_priorities():
    """Chi-square: 9 degrees of freedom; 27.9 is passed by chance once in a thousand."""
    priorities = np.array([1, 2, 3, 4, 0, 5, 0.5, 9, 2, 1.5, 7])
    tree, rng = filled(priorities), np.random.default_rng(0)
    draws = 20_000
    # Single draws: those of a stratified sample are not independent.
    drawn = np.concatenate([tree.sample(1, rng) for _ in range(draws)])
    counts = np.bincount(drawn, minlength=len(priorities))
    expected = draws * priorities / priorities.sum()
    some = priorities > 0
    assert counts[~some].sum() == 0
    assert (np.square(counts - expected)[some] / expected[some]).sum() < 27.9


def test_a_sample_is_stratified():
    tree = filled(np.ones(64))
    np.testing.assert_array_equal(tree.sample(64, np.random.default_rng(0)), np.arange(64))


def test_indices_of_priority_zero_are_never_drawn():
    priorities = np.zeros(100)
    priorities[[3, 64, 99]] = [0.1, 0.2, 0.3]
    tree = filled(priorities)
    assert set(tree.sample(3000, np.random.default_rng(0)).tolist()) == {3, 64, 99}
    # Not even by a mass that rounding has put at the very end.
    assert tree.find(np.array([tree.total, tree.total * (1 + 1e-15)])).tolist() == [99, 99]
