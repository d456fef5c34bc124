import numpy as np
import pytest

from seed_rl.learner.policy_lag import PolicyLag

# (burn-in, [(versions [S, B], updates)], (lag at the first step, at the last one, mean and largest spread)).
CASES = {
    "one version": (0, [([[4], [4], [4]], 4)], (0, 0, 0, 0)),
    "the last step does not count": (0, [([[4], [5], [9]], 9)], (5, 4, 1, 1)),
    "a rollout": (0, [([[4, 4], [4, 4], [-1, -1]], 4)], (0, 0, 0, 0)),
    "burn-in does not count": (2, [([[1], [2], [5], [6], [8]], 9)], (4, 3, 1, 1)),
    "an unroll of one step": (0, [([[3, 2], [3, 9]], 9)], (6.5, 6.5, 0, 0)),
    "two unrolls": (0, [([[1, 2], [3, 2], [9, 9]], 9)], (7.5, 6.5, 1, 2)),
    "two batches": (0, [([[1], [5], [9]], 9), ([[8], [8], [9]], 10)], (5, 3, 2, 4)),
}


@pytest.mark.parametrize(("burn_in", "batches", "expected"), CASES.values(), ids=CASES)
def test_figures(burn_in, batches, expected):
    lag = PolicyLag(burn_in)
    assert lag.take() == {}
    for versions, updates in batches:
        lag.add(np.array(versions), updates)
    assert lag.take() == {
        "policy_lag_first_updates": expected[0],
        "policy_lag_last_updates": expected[1],
        "version_spread_mean_updates": expected[2],
        "version_spread_max_updates": expected[3],
    }
    assert lag.take() == {}
