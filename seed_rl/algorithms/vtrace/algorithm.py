"""The V-trace algorithm: an off-policy actor-critic (Espeholt et al., "IMPALA", 2018, section 4)."""

import tensorflow as tf

from seed_rl.algorithms.actor_critic.entropy_cost import EntropyCost
from seed_rl.algorithms.actor_critic.policy import ActorCriticPolicy
from seed_rl.algorithms.actor_critic.reward_scale import RewardScale
from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.vtrace.config import VTraceConfig
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.networks.actor_critic import ActorCritic
from seed_rl.ops.distributions import distribution_for
from seed_rl.ops.masked import masked_mean
from seed_rl.ops.rewards import clip_reward, soft_asymmetric
from seed_rl.ops.vtrace import vtrace
from seed_rl.types import EnvironmentSpec, Sample


def make(config: VTraceConfig, env_spec: EnvironmentSpec, num_envs: int) -> "VTrace":
    """Makes V-trace for an environment; it explores alike in all copies, so `num_envs` does not matter."""
    del num_envs
    return VTrace(config, env_spec)


class VTrace(Algorithm):
    """Learns from each unroll once, or `passes` times, in the order in which they arrive."""

    def __init__(self, config: VTraceConfig, env_spec: EnvironmentSpec):
        """Creates all variables.

        Raises:
          ValueError: the settings do not fit the environment.
        """
        super().__init__(name="vtrace_agent")  # Its name in checkpoints.
        self.unroll = UnrollConfig(config.unroll_length)
        self.experience = config.queue
        self._config = config
        self._distribution = distribution_for(env_spec.action)
        self._network = ActorCritic(config.net, env_spec, self._distribution.num_parameters)
        self._entropy_cost = EntropyCost(
            config.entropy_cost, config.target_entropy, config.entropy_cost_adjustment_speed
        )
        self._reward_scale = RewardScale(config.discounting) if config.normalize_rewards else None

    @property
    def policy(self) -> ActorCriticPolicy:
        """The policy that samples from the network's action distribution."""
        return ActorCriticPolicy(self._network, self._distribution, self._reward_scale)

    @property
    def objectives(self) -> dict[str, Objective]:
        """A single objective, for the variables of the network and of the entropy cost if it is adjusted."""
        variables = [*self._network.trainable_variables, *self._entropy_cost.trainable_variables]
        return {LOSS: Objective(variables)}

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations and rewards."""
        self._network.trunk.observe(sample.env)
        if self._reward_scale:
            self._reward_scale.observe(sample.env, sample.initial_state[1])

    def losses(self, sample: Sample) -> Losses:
        """Policy gradient, baseline, entropy and KL terms for unrolls `[T + 1, B, ...]`."""
        config, distribution = self._config, self._distribution
        state = sample.initial_state[0] if self._reward_scale else sample.initial_state
        output, _ = self._network.unroll(sample.prev_action, sample.env, state)
        # From here on everything is [T, B]: transition t starts at step t and ends at step t + 1.
        policy, values = output.policy_parameters[:-1], output.baseline[:-1]
        behaviour, actions = sample.agent.info["policy_parameters"][:-1], sample.agent.action[:-1]
        valid = tf.logical_not(sample.env.truncated[:-1])
        log_prob = distribution.log_prob(policy, actions)

        targets = vtrace(
            log_rhos=log_prob - distribution.log_prob(behaviour, actions),
            discounts=tf.where(sample.env.done[1:], 0.0, config.discounting),
            rewards=self._reward(sample.env.reward[1:]),
            values=values,
            bootstrap_value=output.baseline[-1],
            valid=valid,
            lambda_=config.lambda_,
            clip_rho_threshold=config.clip_rho_threshold,
            clip_pg_rho_threshold=config.clip_pg_rho_threshold,
            clip_c_threshold=config.clip_c_threshold,
        )
        advantages = targets.advantages
        if config.normalize_advantages:
            advantages = _normalize(advantages, valid)
        terms = {
            "policy_gradient_loss": -log_prob * advantages,
            "baseline_loss": 0.5 * tf.square(targets.targets - values),
            "entropy": distribution.entropy(policy),
            "kl_old_new": distribution.kl(behaviour, policy),
        }
        loss = terms["policy_gradient_loss"] + config.baseline_cost * terms["baseline_loss"]
        loss += self._entropy_cost.loss(terms["entropy"])
        if config.kl_cost:
            loss += config.kl_cost * terms["kl_old_new"]

        terms |= {"value": values, "clipped_rho": targets.rhos}
        metrics = {name: masked_mean(term, valid) for name, term in terms.items()}
        metrics["explained_variance"] = _explained_variance(values, targets.targets, valid)
        metrics["entropy_cost"] = self._entropy_cost.cost()
        return Losses({LOSS: masked_mean(loss, valid, axis=0)}, None, metrics)

    def _reward(self, reward: tf.Tensor) -> tf.Tensor:
        """Scales and clips rewards for the loss."""
        if self._reward_scale:
            reward = self._reward_scale.scale(reward)
        if self._config.reward_clipping == "soft_asymmetric":
            return soft_asymmetric(reward)
        return clip_reward(reward, self._config.max_abs_reward)


def _normalize(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Scales `x` to mean 0 and standard deviation 1 where `mask` is set; 0 elsewhere."""
    mean = masked_mean(x, mask)
    deviation = tf.sqrt(masked_mean(tf.square(x - mean), mask))
    return tf.where(mask, (x - mean) / (deviation + 1e-8), 0.0)


def _explained_variance(values: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The fraction of the targets' variance that the values explain: 1 at best."""

    def variance(x: tf.Tensor) -> tf.Tensor:
        return masked_mean(tf.square(x - masked_mean(x, mask)), mask)

    return 1.0 - tf.math.divide_no_nan(variance(targets - values), variance(targets))
