"""The A2C algorithm: one update on each rollout."""

import tensorflow as tf

from seed_rl.algorithms.a2c.config import A2CConfig
from seed_rl.algorithms.actor_critic.algorithm import ActorCriticAlgorithm
from seed_rl.algorithms.base import LOSS, Losses
from seed_rl.algorithms.rollout_parts import bootstrapped
from seed_rl.experience.config import WholeRolloutsConfig
from seed_rl.ops.gae import gae
from seed_rl.ops.masked import explained_variance, masked_mean, masked_normalize
from seed_rl.types import EnvironmentSpec, Sample


def make(config: A2CConfig, env_spec: EnvironmentSpec, num_envs: int) -> "A2C":
    """Makes A2C for an environment; it explores alike in all copies, so `num_envs` does not matter."""
    del num_envs
    return A2C(config, env_spec)


class A2C(ActorCriticAlgorithm):
    """Learns from each rollout once, as a whole, with the weights that played it."""

    _config: A2CConfig

    def __init__(self, config: A2CConfig, env_spec: EnvironmentSpec):
        """Creates all variables.

        Raises:
          ValueError: the settings do not fit the environment.
        """
        super().__init__(config, env_spec, "a2c_agent")  # Its name in checkpoints.
        self.experience = WholeRolloutsConfig()

    def losses(self, sample: Sample) -> Losses:
        """Policy gradient, baseline and entropy terms for unrolls `[T + 1, B, ...]`."""
        config, distribution = self._config, self._distribution
        output, _ = self._network.unroll(sample.prev_action, sample.env, self._network_state(sample))
        policy, values = output.policy_parameters[:-1], output.baseline[:-1]
        last_value, valid = bootstrapped(output.baseline[-1], sample.env.truncated)
        advantages = gae(
            rewards=self._reward(sample.env.reward[1:]),
            discounts=self._discounts(sample),
            values=tf.concat([values, last_value[tf.newaxis]], 0),
            valid=valid,
            lambda_=config.lambda_,
        )
        targets = tf.stop_gradient(advantages + values)
        if config.normalize_advantages:
            advantages = masked_normalize(advantages, valid)
        log_prob = distribution.log_prob(policy, sample.agent.action[:-1])
        terms = {
            "policy_gradient_loss": -log_prob * advantages,
            "baseline_loss": 0.5 * tf.square(targets - values),
            "entropy": distribution.entropy(policy),
            "value": values,
        }
        loss = terms["policy_gradient_loss"] + config.baseline_cost * terms["baseline_loss"]
        loss += self._entropy_cost.loss(terms["entropy"])
        metrics = {name: masked_mean(term, valid) for name, term in terms.items()}
        metrics["explained_variance"] = explained_variance(values, targets, valid)
        metrics["entropy_cost"] = self._entropy_cost.cost()
        return Losses({LOSS: masked_mean(loss, valid, axis=0)}, None, metrics)
