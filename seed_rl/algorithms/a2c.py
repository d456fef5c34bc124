"""A2C: one update on each rollout (Mnih et al., 2016; Stooke & Abbeel, 2018, section 3.1)."""

import tensorflow as tf

from seed_rl.algorithms.a2c_config import A2CConfig
from seed_rl.algorithms.actor_critic import ActorCriticAlgorithm
from seed_rl.algorithms.base import Losses
from seed_rl.algorithms.rollout_parts import bootstrapped
from seed_rl.experience.experience_config import WholeRolloutsConfig
from seed_rl.ops.means import masked_normalize
from seed_rl.types import EnvironmentSpec, Sample


class A2C(ActorCriticAlgorithm):
    """Learns from each rollout once, as a whole, with the weights that played it."""

    def __init__(self, config: A2CConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(config, env_spec, num_envs)
        self.experience = WholeRolloutsConfig()

    def losses(self, sample: Sample) -> Losses:
        """Policy gradient, baseline and entropy terms for unrolls `[T + 1, B, ...]`."""
        distribution = self._distribution
        output, _ = self._network.unroll(sample.prev_action, sample.env, self._network_state(sample))
        policy, values = output.policy_parameters[:-1], output.baseline[:-1]
        all_values, valid = bootstrapped(values, output.baseline[-1], sample.env.truncated)
        advantages = self._advantages(sample, all_values, valid)
        targets = tf.stop_gradient(advantages + values)
        if self._config.normalize_advantages:
            advantages = masked_normalize(advantages, valid)
        log_prob = distribution.log_prob(policy, sample.agent.action[:-1])
        terms = {
            "policy_gradient_loss": -log_prob * advantages,
            "baseline_loss": 0.5 * tf.square(targets - values),
            "entropy": distribution.entropy(policy),
            "value": values,
        }
        return self._losses(terms, values, targets, valid)
