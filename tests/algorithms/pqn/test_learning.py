"""PQN learns small games in one process."""

import keras
import pytest

from seed_rl.algorithms.pqn.algorithm import PQN
from seed_rl.algorithms.pqn.config import PQNConfig
from seed_rl.environments.suites.catch import Catch
from seed_rl.environments.suites.recall import Recall
from tests.algorithms.games import CATCH, RECALL
from tests.algorithms.playing import learn

OPTIONS = {"unroll_length": 20, "epochs": 2, "lambda_": 0.9, "epsilon_fraction": 0.5, "final_epsilon": 0.01}


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size", [0, 32])
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    config = PQNConfig.of(**OPTIONS, lstm_size=lstm_size, mlp_sizes="64")
    mean_return = learn(PQN(config, CATCH), lambda seed: Catch(10, 5, seed), 120, 3e-3, batch_size=4)
    # A random policy gets about -0.6.
    assert mean_return > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    config = PQNConfig.of(**OPTIONS, lstm_size=lstm_size, mlp_sizes="32")
    mean_return = learn(PQN(config, RECALL), lambda seed: Recall(4, 2, seed), 150, 3e-3, batch_size=4)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
