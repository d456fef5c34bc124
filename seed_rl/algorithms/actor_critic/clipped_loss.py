"""PPO's loss as a whole, the same on rollouts and from a queue."""

from typing import NamedTuple

import tensorflow as tf

from seed_rl.algorithms.actor_critic.algorithm import EntropyCost
from seed_rl.algorithms.actor_critic.config import ActorCriticConfig
from seed_rl.algorithms.base import LOSS, Losses
from seed_rl.networks.actor_critic import ActorCriticOutput
from seed_rl.ops.distributions import ActionDistribution
from seed_rl.ops.masked import explained_variance, masked_mean, masked_normalize
from seed_rl.ops.ppo import clipped_policy_loss, value_loss


class Transitions(NamedTuple):
    """What the loss needs of T transitions of B unrolls; `[T, B]`, float32 where nothing else is said.

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


def clipped_losses(
    config: ActorCriticConfig,
    clip_ratio: float,
    clip_value: float | None,
    distribution: ActionDistribution,
    entropy_cost: EntropyCost,
    output: ActorCriticOutput,
    transitions: Transitions,
) -> Losses:
    """Clipped policy gradient, baseline and entropy terms (Schulman et al., 2017, equation 9), and metrics.

    `clip_ratio` and `clip_value` are the limits in `ops.ppo`; `output` is the network's for the transitions.
    """
    policy, values, valid = output.policy_parameters, output.baseline, transitions.valid
    advantages = transitions.advantages
    if config.normalize_advantages:
        advantages = masked_normalize(advantages, valid)
    old_log_prob = distribution.log_prob(transitions.behaviour, transitions.action)
    log_ratio = distribution.log_prob(policy, transitions.action) - old_log_prob
    log_ratio = tf.where(valid, log_ratio, 0.0)
    terms = {
        "policy_gradient_loss": clipped_policy_loss(log_ratio, advantages, clip_ratio),
        "baseline_loss": value_loss(values, transitions.targets, transitions.old_values, clip_value),
        "entropy": distribution.entropy(policy),
        "kl_old_new": distribution.kl(transitions.behaviour, policy),
        "value": values,
        "clipped_share": tf.cast(tf.abs(tf.exp(log_ratio) - 1.0) > clip_ratio, tf.float32),
    }
    loss = terms["policy_gradient_loss"] + config.baseline_cost * terms["baseline_loss"]
    loss += entropy_cost.loss(terms["entropy"])
    metrics = {name: masked_mean(term, valid) for name, term in terms.items()}
    metrics["explained_variance"] = explained_variance(transitions.old_values, transitions.targets, valid)
    metrics["entropy_cost"] = entropy_cost.cost()
    return Losses({LOSS: masked_mean(loss, valid, axis=0)}, None, metrics)
