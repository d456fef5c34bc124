import numpy as np
import pytest

from seed_rl.experience.sum_tree import SumTree


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
    drawn = filled(priorities).sample(3000, np.random.default_rng(0))
    assert set(drawn.tolist()) == {3, 64, 99}
    # Not even by a mass that rounding has put at the very end.
    tree = filled(priorities)
    assert tree.find(np.array([tree.total, tree.total * (1 + 1e-15)])).tolist() == [99, 99]


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_priorities_change_nothing(bad):
    tree = filled([1.0, 2.0])
    with pytest.raises(ValueError, match="finite and at least 0"):
        tree.set(np.array([0, 1]), np.array([5.0, bad]))
    assert tree.get(np.array([0, 1])).tolist() == [1.0, 2.0]


def test_an_empty_tree_has_nothing_to_draw():
    with pytest.raises(ValueError, match="nothing to draw"):
        SumTree(4).sample(1, np.random.default_rng(0))
