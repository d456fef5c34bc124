"""APPO learns a small game in one process."""

import keras
import pytest

from seed_rl.algorithms.appo.algorithm import APPO
from seed_rl.algorithms.appo.config import APPOConfig
from seed_rl.environments.suites.catch import Catch
from tests.algorithms.games import CATCH
from tests.algorithms.playing import learn


@pytest.mark.slow
@pytest.mark.parametrize("vtrace", [True, False])
def test_learns_catch(vtrace):
    keras.utils.set_random_seed(0)
    config = APPOConfig.of(unroll_length=20, lstm_size=0, mlp_sizes="64", vtrace=vtrace)
    mean_return = learn(APPO(config, CATCH), lambda seed: Catch(10, 5, seed), 200, 1e-2)
    # A random policy gets about -0.6.
    assert mean_return > 0.8
