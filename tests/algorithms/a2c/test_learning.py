"""A2C learns a small game in one process."""

import keras
import pytest

from seed_rl.algorithms.a2c.algorithm import A2C
from seed_rl.algorithms.a2c.config import A2CConfig
from seed_rl.environments.suites.catch import Catch
from tests.algorithms.games import CATCH
from tests.algorithms.playing import learn


@pytest.mark.slow
def test_learns_catch():
    keras.utils.set_random_seed(0)
    config = A2CConfig.of(unroll_length=10, lstm_size=0, mlp_sizes="64")
    mean_return = learn(A2C(config, CATCH), lambda seed: Catch(10, 5, seed), 300, 5e-3)
    # A random policy gets about -0.6.
    assert mean_return > 0.8
