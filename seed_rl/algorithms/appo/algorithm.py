"""The APPO algorithm: PPO's loss on each unroll, in the order in which they arrive."""

import tensorflow as tf

from seed_rl.algorithms.appo.appo_config import APPOConfig
from seed_rl.algorithms.base import Losses
from seed_rl.algorithms.ppo.algorithm import ClippedAlgorithm, Transitions
from seed_rl.networks.actor_critic import ActorCriticOutput
from seed_rl.ops.returns import gae
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
        estimate = self._corrected if self._config.vtrace else self._generalized
        advantages, targets = estimate(sample, output)
        transitions = Transitions(
            sample.agent.action[:-1],
            sample.agent.info["policy_parameters"][:-1],
            sample.agent.info["baseline"][:-1],
            advantages,
            targets,
            tf.logical_not(sample.env.truncated[:-1]),
        )
        return self._clipped_losses(tf.nest.map_structure(lambda x: x[:-1], output), transitions)

    def _generalized(self, sample: Sample, output: ActorCriticOutput) -> tuple[tf.Tensor, tf.Tensor]:
        """Advantages and the baseline's targets `[T, B]` from the values of the time of the actions."""
        del output
        values = sample.agent.info["baseline"]
        advantages = gae(
            rewards=self._reward(sample.env.reward[1:]),
            discounts=self._discounts(sample),
            values=values,
            valid=tf.logical_not(sample.env.truncated[:-1]),
            lambda_=self._config.lambda_,
        )
        return advantages, advantages + values[:-1]

    def _corrected(self, sample: Sample, output: ActorCriticOutput) -> tuple[tf.Tensor, tf.Tensor]:
        """The same by V-trace, from the values as they are now.

        The clipped ratio of PPO's loss is the policy gradient's importance weight already, so advantages have
        none of their own.
        """
        action, behaviour = sample.agent.action[:-1], sample.agent.info["policy_parameters"][:-1]
        log_prob = self._distribution.log_prob(output.policy_parameters[:-1], action)
        rewards, discounts = self._reward(sample.env.reward[1:]), self._discounts(sample)
        valid = tf.logical_not(sample.env.truncated[:-1])
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
