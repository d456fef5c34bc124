"""DQN and its descendants learn Catch from transitions in arrays: no server, no replay of the project."""

import keras
import pytest

from seed_rl.algorithms.dqn.algorithm import DQN
from seed_rl.algorithms.dqn.config import DQNConfig
from seed_rl.environments.suites.catch import Catch
from tests.algorithms.games import CATCH, B, Games, greedy_return, learn_from_transitions, steps


def play(first_seed=0):
    return Games(lambda seed: Catch(10, 5, seed), first_seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param(
            {
                "distribution": "categorical",
                "num_atoms": 21,
                "v_min": -2.0,
                "v_max": 2.0,
                "exploration": "noisy",
            },
            id="rainbow",
        ),
        pytest.param(
            {"distribution": "quantile", "munchausen": True, "double": False, "num_quantiles": 8},
            id="btr",
        ),
        pytest.param({"exploration": "ladder", "loss": "squared"}, id="ladder"),
    ],
)
def test_learns_catch(options):
    keras.utils.set_random_seed(0)
    options = {
        "mlp_sizes": "64",
        "head_size": 32,
        "dueling": True,
        "double": True,
        "n_steps": 3,
        "discounting": 0.97,
        "update_target_every_n_step": 50,
    } | options
    algorithm = DQN(DQNConfig.of(**options), CATCH, B)
    learn_from_transitions(algorithm, steps(algorithm, play(), algorithm.policy.act), 900, learning_rate=2e-3)
    # A random policy gets about -0.6.
    assert greedy_return(algorithm, play(first_seed=B), 200) > 0.8
