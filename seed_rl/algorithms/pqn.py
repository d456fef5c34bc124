"""PQN: epochs of regression to the lambda-returns of rollouts (Gallici et al., 2024)."""

import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Epochs, Losses, Objective, num_actions
from seed_rl.algorithms.pqn_config import PQNConfig
from seed_rl.algorithms.q_learning import EpsilonGreedyPolicy, annealed_epsilon
from seed_rl.algorithms.rollout_parts import bootstrapped, last_step, parts_of
from seed_rl.experience.base import UnrollConfig
from seed_rl.networks.q_network import Head, QNetwork
from seed_rl.ops.means import masked_mean
from seed_rl.ops.rescaling import clip_reward
from seed_rl.ops.returns import lambda_returns
from seed_rl.types import EnvironmentSpec, Sample


class PQN(Algorithm):
    """Learns Q-values from rollouts; there is one network, whose layers are normalized."""

    def __init__(self, config: PQNConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__()
        del num_envs  # All explore alike.
        self.unroll = UnrollConfig(config.unroll_length)
        self.experience = config.rollouts
        self.epochs = Epochs(config.rollouts.epochs)
        self._config, self._action_dtype = config, env_spec.action.dtype
        self._network = QNetwork(config.net, env_spec, num_actions(env_spec.action, "PQN"), Head())
        self._epsilon = tf.Variable(self._epsilon_at(tf.constant(0.0)), trainable=False, name="epsilon")

    @property
    def policy(self) -> EpsilonGreedyPolicy:
        """Acts with the network that is trained; all environments have the same epsilon."""

        def epsilons(env_ids: tf.Tensor) -> tf.Tensor:
            return tf.fill(tf.shape(env_ids), tf.convert_to_tensor(self._epsilon))

        return EpsilonGreedyPolicy(self._network, self._action_dtype, epsilons, self._epsilon)

    @property
    def objectives(self) -> dict[str, Objective]:
        """A single objective, for the network's variables."""
        return {LOSS: Objective(self._network.trainable_variables)}

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations."""
        self._network.trunk.observe(sample.env)

    def prepare(self, sample: Sample) -> Sample:
        """Adds targets to rollouts `[T + 1, B, ...]`; drops their last step.

        They come from the Q-values of acting, and from those of the last step, which are computed here.
        """
        last, _ = self._network.unroll(*last_step(self._network.trunk, sample))
        values = tf.reduce_max(sample.agent.info["q_values"][:-1], -1)
        values, valid = bootstrapped(values, tf.reduce_max(last[-1], -1), sample.env.truncated)
        targets = lambda_returns(
            rewards=clip_reward(sample.env.reward[1:], self._config.max_abs_reward),
            discounts=tf.where(sample.env.done[1:], 0.0, self._config.discounting),
            values=values,
            valid=valid,
            lambda_=self._config.lambda_,
        )
        return parts_of(self._network.trunk, sample, {"target": targets, "valid": valid})

    def losses(self, sample: Sample) -> Losses:
        """Half the squared errors of a minibatch of what `prepare` returns."""
        q_values, _ = self._network.unroll(sample.prev_action, sample.env, sample.initial_state)
        target, valid = sample.agent.info["target"], sample.agent.info["valid"]
        taken = tf.gather(q_values, sample.agent.action, batch_dims=2)
        errors = target - taken
        metrics = {
            "td_error": masked_mean(tf.abs(errors), valid),
            "q_value": masked_mean(taken, valid),
            "q_max": masked_mean(tf.reduce_max(q_values, -1), valid),
            "target": masked_mean(target, valid),
            "epsilon": tf.convert_to_tensor(self._epsilon),
        }
        return Losses({LOSS: masked_mean(0.5 * tf.square(errors), valid, axis=0)}, None, metrics)

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Lowers epsilon."""
        del iteration
        self._epsilon.assign(self._epsilon_at(progress))

    def _epsilon_at(self, progress: tf.Tensor) -> tf.Tensor:
        config = self._config
        limits = config.initial_epsilon, config.final_epsilon
        return annealed_epsilon(progress, *limits, config.epsilon_fraction)
