"""PPO's loss as a whole, the same on rollouts and from a queue."""

from typing import NamedTuple

import tensorflow as tf

from seed_rl.algorithms.actor_critic.algorithm import ActorCriticAlgorithm
from seed_rl.algorithms.base import Losses
from seed_rl.algorithms.ppo.ppo_config import ClippedConfig
from seed_rl.networks.actor_critic import ActorCriticOutput
from seed_rl.ops.means import masked_normalize
from seed_rl.ops.ppo import clipped_policy_loss, value_loss


class Transitions(NamedTuple):
    """Inputs of the loss for T transitions of B unrolls; `[T, B]`, float32 where nothing else is noted.

    action: `[T, B, ...]`. behaviour: `[T, B, P]`, parameters of the policy that chose it. old_values: the
    baseline then. advantages: before normalization. targets: of the baseline. valid: bool, whether the
    transition is experience.
    """

    action: tf.Tensor
    behaviour: tf.Tensor
    old_values: tf.Tensor
    advantages: tf.Tensor
    targets: tf.Tensor
    valid: tf.Tensor


class ClippedAlgorithm(ActorCriticAlgorithm):
    """Limits how far one batch moves policy and values."""

    _config: ClippedConfig

    def _clipped_losses(self, output: ActorCriticOutput, transitions: Transitions) -> Losses:
        """Clipped policy gradient, baseline and entropy terms (Schulman et al., 2017, equation 9).

        `output` is the network's for the transitions.
        """
        distribution, clipping = self._distribution, self._config.clipping
        policy, values, valid = output.policy_parameters, output.baseline, transitions.valid
        advantages = transitions.advantages
        if self._config.normalize_advantages:
            advantages = masked_normalize(advantages, valid)
        old_log_prob = distribution.log_prob(transitions.behaviour, transitions.action)
        log_ratio = distribution.log_prob(policy, transitions.action) - old_log_prob
        log_ratio = tf.where(valid, log_ratio, 0.0)
        old_values, targets = transitions.old_values, transitions.targets
        terms = {
            "policy_gradient_loss": clipped_policy_loss(log_ratio, advantages, clipping.clip_ratio),
            "baseline_loss": value_loss(values, targets, old_values, clipping.clip_value),
            "entropy": distribution.entropy(policy),
            "kl_old_new": distribution.kl(transitions.behaviour, policy),
            "value": values,
            "clipped_share": tf.cast(tf.abs(tf.exp(log_ratio) - 1.0) > clipping.clip_ratio, tf.float32),
        }
        return self._losses(terms, old_values, targets, valid)
