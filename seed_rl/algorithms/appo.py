"""APPO: PPO's loss on each unroll, in the order in which they arrive (Stooke & Abbeel, 2018)."""

import tensorflow as tf

from seed_rl.algorithms.appo_config import APPOConfig
from seed_rl.algorithms.base import Losses
from seed_rl.algorithms.ppo import ClippedAlgorithm
from seed_rl.networks.actor_critic import ActorCriticOutput
from seed_rl.ops.vtrace import vtrace
from seed_rl.types import EnvironmentSpec, Sample


class APPO(ClippedAlgorithm):
    """Learns from each unroll once, or `passes` times, while actors continue with slightly older weights."""

    _config: APPOConfig

    def __init__(self, config: APPOConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(config, env_spec, num_envs)
        self.experience = config.queue

    def losses(self, sample: Sample) -> Losses:
        """PPO's loss for unrolls `[T + 1, B, ...]`."""
        output, _ = self._network.unroll(sample.prev_action, sample.env, self._network_state(sample))
        valid = tf.logical_not(sample.env.truncated[:-1])
        if self._config.vtrace:
            advantages, targets = self._corrected(sample, output, valid)
        else:  # Of the values of the time of the actions.
            values = sample.agent.info["baseline"]
            advantages = self._advantages(sample, values, valid)
            targets = advantages + values[:-1]
        transitions = self._transitions(sample, advantages, targets, valid)
        return self._clipped_losses(tf.nest.map_structure(lambda x: x[:-1], output), transitions)

    def _corrected(
        self, sample: Sample, output: ActorCriticOutput, valid: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Advantages and the baseline's targets `[T, B]` by V-trace, from the values as they are now.

        The clipped ratio of PPO's loss is the policy gradient's importance weight already, so advantages have
        none of their own.
        """
        action, behaviour = sample.agent.action[:-1], sample.agent.info["policy_parameters"][:-1]
        log_prob = self._distribution.log_prob(output.policy_parameters[:-1], action)
        rewards, discounts = self._rewards(sample), self._discounts(sample)
        values, bootstrap_value = output.baseline[:-1], output.baseline[-1]
        targets = vtrace(
            log_rhos=log_prob - self._distribution.log_prob(behaviour, action),
            discounts=discounts,
            rewards=rewards,
            values=values,
            bootstrap_value=bootstrap_value,
            valid=valid,
            lambda_=self._config.lambda_,
        ).targets
        following = tf.concat([targets[1:], bootstrap_value[tf.newaxis]], 0)
        advantages = tf.where(valid, rewards + discounts * following - values, 0.0)
        return tf.stop_gradient(advantages), targets
