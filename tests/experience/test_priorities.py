"""Probabilities, weights, and what is drawn, without any transitions."""

import numpy as np
import pytest

from seed_rl.experience.priorities import PrioritizedDraws, UniformDraws, importance_weights, scaled

EXPONENTS = (0.5, 0.4)


def test_importance_weights_are_those_of_the_equation():
    probabilities = np.array([0.1, 0.4, 0.05])
    weights = [(1 / (1000 * p)) ** 0.6 for p in probabilities]
    expected = [w / max(weights) for w in weights]
    np.testing.assert_allclose(importance_weights(probabilities, 0.6), expected, rtol=1e-6)


def test_priorities_are_raised_to_the_exponent_and_stay_above_0():
    np.testing.assert_allclose(scaled(np.array([4.0, 9.0, 0.0]), 0.5), [2, 3, 1e-3])


@pytest.mark.parametrize("make", [UniformDraws, lambda size: PrioritizedDraws(size, *EXPONENTS)])
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
            drawn = draws.draw(7, random)
            assert set(drawn.indices.tolist()) <= expected
            assert drawn.weights.dtype == np.float32
            assert len(drawn.indices) == len(drawn.weights) == 7
    assert len(expected) > 5


def test_one_of_many_is_found():
    draws = UniformDraws(100_000)
    draws.enter(np.arange(100_000), np.arange(100_000) == 77_777)
    np.testing.assert_array_equal(draws.draw(32, np.random.default_rng(0)).indices, np.full(32, 77_777))


@pytest.mark.parametrize("make", [UniformDraws, lambda size: PrioritizedDraws(size, *EXPONENTS)])
def test_what_is_restored_is_what_there_was(make):
    first, second, indices = make(8), make(8), np.arange(8)
    first.enter(indices, np.arange(8) % 3 > 0)
    first.update(np.array([1, 4]), np.array([9.0, 0.5]))
    second.restore(indices, first.get(indices))
    assert second.count == first.count == 5
    np.testing.assert_array_equal(second.get(indices), first.get(indices))


def test_a_bad_priority_changes_nothing():
    draws = PrioritizedDraws(4, *EXPONENTS)
    draws.enter(np.arange(4), np.ones(4, bool))
    with pytest.raises(ValueError, match="must be finite"):
        draws.update(np.array([1, 2]), np.array([2.0, np.nan]))
    assert draws.highest == 1.0
    np.testing.assert_array_equal(draws.get(np.arange(4)), np.ones(4))
