"""DQN's policy: epsilon-greedy, or greedy with noise in the network."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.dqn.dqn_config import DQNConfig
from seed_rl.algorithms.dqn.returns import Returns
from seed_rl.algorithms.epsilon_greedy import EpsilonGreedyPolicy, annealed_epsilon, training_epsilons
from seed_rl.networks.q_network import QNetwork
from seed_rl.types import EnvOutput, Nest


class Exploration(tf.Module):
    """Exploration by environment: one epsilon for all that falls, one for each, or noise in the network.

    Attributes:
      noisy: whether training environments explore by noise in the network.
    """

    def __init__(self, config: DQNConfig, num_training_envs: int):
        """Environments from `num_training_envs` on only evaluate."""
        super().__init__()
        self.noisy = config.exploration == "noisy"
        self._config, self._num_training_envs = config, num_training_envs
        self._epsilons = np.zeros(num_training_envs, np.float32)
        self._annealed: tf.Variable | None = None
        if config.exploration == "ladder":
            self._epsilons = training_epsilons(num_training_envs)
        elif config.exploration == "annealed":
            self._annealed = tf.Variable(config.initial_epsilon, trainable=False, name="epsilon")
            self.update(tf.constant(0.0))

    def trains(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Mask of the environments that train: bool `[B]`, by their ids int32 `[B]`."""
        return env_ids < self._num_training_envs

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The probability of a random action in each environment: float32 `[B]`, by their ids int32 `[B]`."""
        training = tf.gather(self._of_training(), tf.minimum(env_ids, self._num_training_envs - 1))
        return tf.where(self.trains(env_ids), training, self._config.eval_epsilon)

    def mean(self) -> tf.Tensor:
        """The mean over training environments, for the logs."""
        return tf.reduce_mean(self._of_training())

    def update(self, progress: tf.Tensor) -> None:
        """Sets epsilon to its value at this fraction of the run, float32 scalar."""
        if self._annealed is not None:
            config = self._config
            limits = config.initial_epsilon, config.final_epsilon
            self._annealed.assign(annealed_epsilon(progress, *limits, config.epsilon_fraction))

    def _of_training(self) -> tf.Tensor:
        if self._annealed is None:
            return tf.constant(self._epsilons)
        return tf.fill([self._num_training_envs], tf.convert_to_tensor(self._annealed))


class DQNPolicy(EpsilonGreedyPolicy):
    """Takes the action of the highest mean return or, with its environment's epsilon, a random one.

    Noise is drawn for each batch of training environments. Those that evaluate act without.
    """

    _exploration: Exploration

    def __init__(self, network: QNetwork, returns: Returns, exploration: Exploration, action_dtype: str):
        super().__init__(network, exploration, action_dtype)
        self._returns = returns  # The meaning of the network's outputs.

    def values(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None
    ) -> tuple[tf.Tensor, Nest]:
        """The values of actions and the next state."""
        features, state = self._network.features(prev_action, env, state)
        values = self._returns.q_values(self._network, features, noisy=False)
        if env_ids is None or not self._exploration.noisy:
            return values, state
        noisy_values = self._returns.q_values(self._network, features, noisy=True)
        return tf.where(self._exploration.trains(env_ids)[:, tf.newaxis], noisy_values, values), state

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Each environment's epsilon."""
        return self._exploration.epsilons(env_ids)
