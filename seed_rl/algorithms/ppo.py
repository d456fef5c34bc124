"""PPO: epochs of clipped updates on rollouts (Schulman et al., 2017); and the loss that APPO shares."""

from typing import NamedTuple

import tensorflow as tf

from seed_rl.algorithms.actor_critic import ActorCriticAlgorithm
from seed_rl.algorithms.base import Epochs, Losses
from seed_rl.algorithms.ppo_config import ClippedConfig, PPOConfig
from seed_rl.algorithms.rollout_parts import bootstrapped, last_step, parts_of
from seed_rl.networks.actor_critic import ActorCriticOutput
from seed_rl.ops.means import masked_normalize
from seed_rl.types import EnvironmentSpec, Sample


def clipped_policy_loss(log_ratio: tf.Tensor, advantages: tf.Tensor, clip: float) -> tf.Tensor:
    """`-min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)` (equation 7), for each action; any shape.

    `log_ratio` is the log of r: the probability of the action now, over that when it was chosen.
    """
    ratio = tf.exp(log_ratio)
    clipped = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
    return -tf.minimum(ratio * advantages, clipped * advantages)


def value_loss(values: tf.Tensor, targets: tf.Tensor, old_values: tf.Tensor, clip: float | None) -> tf.Tensor:
    """Half the squared error of values; any shape.

    With `clip`, the larger one of this and of the error of values limited to `old_values` +- `clip`, so that
    moving farther does not pay (not in the paper, but in its authors' code; Engstrom et al.,
    "Implementation Matters in Deep Policy Gradients", 2020, section 3).
    `old_values` are those when the actions were chosen; the limit is in units of (scaled) returns.
    """
    errors = tf.square(targets - values)
    if clip is not None:
        limited = old_values + tf.clip_by_value(values - old_values, -clip, clip)
        errors = tf.maximum(errors, tf.square(targets - limited))
    return 0.5 * errors


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

    def _transitions(
        self, sample: Sample, advantages: tf.Tensor, targets: tf.Tensor, valid: tf.Tensor
    ) -> Transitions:
        """Adds what acting has left in unrolls `[T + 1, B, ...]`."""
        agent = tf.nest.map_structure(lambda x: x[:-1], sample.agent)
        behaviour, old_values = agent.info["policy_parameters"], agent.info["baseline"]
        return Transitions(agent.action, behaviour, old_values, advantages, targets, valid)

    def _clipped_losses(self, output: ActorCriticOutput, transitions: Transitions) -> Losses:
        """Clipped policy gradient, baseline and entropy terms (Schulman et al., 2017, equation 9).

        `output` is the network's for the transitions.
        """
        distribution, clipping = self._distribution, self._config.clipping
        policy, values = output.policy_parameters, output.baseline
        action, behaviour, old_values, advantages, targets, valid = transitions
        if self._config.normalize_advantages:
            advantages = masked_normalize(advantages, valid)
        old_log_prob = distribution.log_prob(behaviour, action)
        log_ratio = tf.where(valid, distribution.log_prob(policy, action) - old_log_prob, 0.0)
        terms = {
            "policy_gradient_loss": clipped_policy_loss(log_ratio, advantages, clipping.clip_ratio),
            "baseline_loss": value_loss(values, targets, old_values, clipping.clip_value),
            "entropy": distribution.entropy(policy),
            "kl_old_new": distribution.kl(behaviour, policy),
            "value": values,
            "clipped_share": tf.cast(tf.abs(tf.exp(log_ratio) - 1.0) > clipping.clip_ratio, tf.float32),
        }
        return self._losses(terms, old_values, targets, valid)


class PPO(ClippedAlgorithm):
    """Trains on rollouts, in minibatches of transitions or, if the network has an LSTM, of whole unrolls."""

    _config: PPOConfig

    def __init__(self, config: PPOConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(config, env_spec, num_envs)
        self.experience = config.rollouts
        limit = None if config.target_kl is None else ("kl_old_new", config.target_kl)
        self.epochs = Epochs(config.rollouts.epochs, limit)

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations."""
        self._network.trunk.observe(sample.env)

    def prepare(self, sample: Sample) -> Sample:
        """Adds advantages and the baseline's targets to rollouts `[T + 1, B, ...]`; drops their last step.

        Advantages come from the values of the time when the actions were chosen, which are those of the
        weights before the first epoch; the value of the last step is computed here. Rewards are scaled by
        statistics that include those of the rollout.
        """
        if self._reward_scale:
            self._reward_scale.observe(sample.env, sample.initial_state[1])
        sample = sample._replace(initial_state=self._network_state(sample))
        trunk, old_values = self._network.trunk, sample.agent.info["baseline"][:-1]
        output, _ = self._network.unroll(*last_step(trunk, sample))
        values, valid = bootstrapped(old_values, output.baseline[-1], sample.env.truncated)
        advantages = self._advantages(sample, values, valid)
        transitions = self._transitions(sample, advantages, advantages + old_values, valid)
        return parts_of(trunk, sample, transitions._asdict())

    def losses(self, sample: Sample) -> Losses:
        """PPO's loss for a minibatch of what `prepare` returns."""
        output, _ = self._network.unroll(sample.prev_action, sample.env, sample.initial_state)
        return self._clipped_losses(output, Transitions(**sample.agent.info))
