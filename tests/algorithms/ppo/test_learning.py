"""PPO learns small games in one process."""

import keras
import pytest

from seed_rl.algorithms.ppo.algorithm import PPO
from seed_rl.algorithms.ppo.config import PPOConfig
from seed_rl.environments.suites.catch import Catch
from seed_rl.environments.suites.recall import Recall
from tests.algorithms.games import CATCH, RECALL
from tests.algorithms.playing import learn


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size", [0, 32])
def test_learns_catch(lstm_size):
    keras.utils.set_random_seed(0)
    config = PPOConfig.of(unroll_length=20, lstm_size=lstm_size, mlp_sizes="64")
    mean_return = learn(PPO(config, CATCH), lambda seed: Catch(10, 5, seed), 60, 5e-3, batch_size=4)
    # A random policy gets about -0.6.
    assert mean_return > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size,solved", [(32, True), (0, False)])
def test_recalls_what_it_saw_only_with_a_memory(lstm_size, solved):
    keras.utils.set_random_seed(0)
    config = PPOConfig.of(
        unroll_length=20, lstm_size=lstm_size, mlp_sizes="32", use_last_action_and_reward=False
    )
    mean_return = learn(PPO(config, RECALL), lambda seed: Recall(4, 2, seed), 80, 5e-3, batch_size=4)
    # Chance is a half; 200 episodes of chance reach 0.65 about once in 50,000 times.
    assert mean_return >= 0.95 if solved else mean_return < 0.65
