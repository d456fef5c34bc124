"""Base of actor-critic algorithms: network, policy, and rewards as their losses use them."""

import math
from typing import Any

import keras
import tensorflow as tf

from seed_rl.algorithms.actor_critic_config import ActorCriticConfig
from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.experience.base import UnrollConfig
from seed_rl.networks.actor_critic import ActorCritic
from seed_rl.networks.scaling import RunningScale
from seed_rl.ops.distributions import ActionDistribution, distribution_for
from seed_rl.ops.means import explained_variance, masked_mean
from seed_rl.ops.rescaling import clip_reward, soft_asymmetric
from seed_rl.ops.returns import gae
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Nest, Sample


class RewardScale(keras.layers.Layer):
    """Divides rewards by the standard deviation of the discounted sums of the rewards so far in an episode.

    A value function has the scale of such sums (Engstrom et al., "Implementation Matters in Deep Policy
    Gradients", 2020, section 3). Until there are statistics, rewards are left as they are. The state is each
    environment's sum, float32 `[B]`. It travels with the agent's recurrent state, so an unroll includes the
    sum that it started from.
    """

    def __init__(self, discounting: float):
        super().__init__()
        self._discounting = discounting
        self._statistics = RunningScale(ArraySpec((), "float32"))
        self.built = True

    def initial_state(self, batch_size: int | tf.Tensor) -> tf.Tensor:
        """The sums before the first step."""
        return tf.zeros([batch_size])

    def next_state(self, env: EnvOutput, state: tf.Tensor) -> tf.Tensor:
        """The sums after one step `[B]`; the reward at `done` belongs to the episode that ended."""
        return tf.where(env.done, 0.0, self._discounting * state + env.reward)

    def observe(self, env: EnvOutput, state: tf.Tensor) -> None:
        """Adds the sums of unrolls `[T + 1, B]` to the statistics, except the first step, which overlaps."""
        sums = []
        for t in range(env.reward.shape[0]):
            sums.append(self._discounting * state + env.reward[t])
            state = tf.where(env.done[t], 0.0, sums[-1])
        self._statistics.update(tf.stack(sums[1:]))

    def scale(self, reward: tf.Tensor) -> tf.Tensor:
        """Rewards of any shape, scaled by the statistics so far."""
        return reward * self._statistics.affine()[1]


class ActorCriticPolicy(Policy):
    """Samples from the action distribution that the algorithm's network outputs, and keeps the rewards' sums.

    `AgentOutput.info` holds `policy_parameters` `[B, P]` (of the behaviour policy) and `baseline` `[B]`.
    """

    def __init__(
        self, network: ActorCritic, distribution: ActionDistribution, reward_scale: RewardScale | None
    ):
        super().__init__()
        self._network, self._distribution, self._reward_scale = network, distribution, reward_scale

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's state, an empty tuple if it has none; with `normalize_rewards` (that, the sums)."""
        state = self._network.trunk.initial_state(batch_size)
        return (state, self._reward_scale.initial_state(batch_size)) if self._reward_scale else state

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Samples from the policy; see `Policy.act`."""
        del env_ids
        return self._act(prev_action, env, state, self._distribution.sample)

    def act_greedy(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Takes the policy's mode; otherwise like `act`."""
        del env_ids
        return self._act(prev_action, env, state, self._distribution.mode)

    def _act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, choose: Any) -> Acted:
        if self._reward_scale:
            state, sums = state
            sums = self._reward_scale.next_state(env, sums)
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        output, state = self._network.unroll(prev_action, env, state)
        if self._reward_scale:
            state = state, sums
        info = {name: array[0] for name, array in output._asdict().items()}
        return AgentOutput(choose(info["policy_parameters"]), info), state


class EntropyCost(keras.layers.Layer):
    """A constant, or a line over the run, or with a target `exp(speed * parameter)`, which is learned."""

    def __init__(self, config: ActorCriticConfig):
        super().__init__()
        self._cost, self._final = config.entropy_cost, config.final_entropy_cost
        self._target_entropy, self._speed = config.target_entropy, config.entropy_cost_adjustment_speed
        if self._final is not None:
            self._progress = self.add_weight(shape=(), initializer="zeros", trainable=False, name="progress")
        if self._target_entropy is not None:
            start = keras.initializers.Constant(math.log(self._cost) / self._speed)
            self._parameter = self.add_weight(shape=(), initializer=start, name="entropy_cost_parameter")
        self.built = True

    def cost(self) -> tf.Tensor:
        """The current weight: float32 scalar."""
        if self._final is not None:
            return self._cost + (self._final - self._cost) * tf.convert_to_tensor(self._progress)
        if self._target_entropy is None:
            return tf.constant(self._cost)
        return tf.exp(self._speed * tf.convert_to_tensor(self._parameter))

    def advance(self, progress: tf.Tensor) -> None:
        """Notes the fraction of the run that is complete."""
        if self._final is not None:
            self._progress.assign(progress)

    def loss(self, entropy: tf.Tensor) -> tf.Tensor:
        """The term to add to the loss for policies with this entropy; any shape.

        The policy's gradient comes from the bonus `-cost * entropy`, and the cost's from the second term,
        which raises the cost if the entropy is below its target and lowers it if it is above.
        """
        cost = self.cost()
        bonus = -tf.stop_gradient(cost) * entropy
        if self._target_entropy is None:
            return bonus
        return bonus + cost * tf.stop_gradient(entropy - self._target_entropy)


class ActorCriticAlgorithm(Algorithm):
    """Samples from a network's action distribution, and learns it together with a baseline."""

    def __init__(self, config: ActorCriticConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__()
        del num_envs  # All explore alike.
        self.unroll = UnrollConfig(config.unroll_length)
        self._config = config
        self._distribution = distribution_for(env_spec.action)
        self._network = ActorCritic(config.net, env_spec, self._distribution.num_parameters)
        self._entropy_cost = EntropyCost(config)
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

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Moves the entropy cost, if it has a schedule."""
        del iteration
        self._entropy_cost.advance(progress)

    def _network_state(self, sample: Sample) -> Nest:
        """The network's part of the state before an unroll's first step."""
        return sample.initial_state[0] if self._reward_scale else sample.initial_state

    def _discounts(self, sample: Sample) -> tf.Tensor:
        """Of the transitions of unrolls `[T + 1, B, ...]`: gamma, or 0 where the episode ends: `[T, B]`."""
        return tf.where(sample.env.done[1:], 0.0, self._config.discounting)

    def _rewards(self, sample: Sample) -> tf.Tensor:
        """Of the transitions of unrolls `[T + 1, B, ...]`, scaled and clipped for the loss: `[T, B]`."""
        rewards = sample.env.reward[1:]
        if self._reward_scale:
            rewards = self._reward_scale.scale(rewards)
        if self._config.reward_clipping == "soft_asymmetric":
            return soft_asymmetric(rewards)
        return clip_reward(rewards, self._config.max_abs_reward)

    def _advantages(self, sample: Sample, values: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Generalized advantages `[T, B]` from values `[T + 1, B]`; see `gae`."""
        rewards, discounts = self._rewards(sample), self._discounts(sample)
        return gae(rewards, discounts, values, valid, self._config.lambda_)

    def _losses(
        self,
        terms: dict[str, tf.Tensor],
        values: tf.Tensor,
        targets: tf.Tensor,
        valid: tf.Tensor,
        extra: tf.Tensor | float = 0.0,
    ) -> Losses:
        """Weights the terms of the loss, and makes metrics of all terms; everything is `[T, B]`.

        Args:
          terms: `policy_gradient_loss`, `baseline_loss` and `entropy`; others are only metrics.
          values: the baseline, of which there are metrics.
          targets: the baseline's targets.
          valid: bool, whether a transition is experience.
          extra: whatever else is in the loss, with its weight.
        """
        loss = terms["policy_gradient_loss"] + self._config.baseline_cost * terms["baseline_loss"]
        loss = loss + self._entropy_cost.loss(terms["entropy"]) + extra
        metrics = {name: masked_mean(term, valid) for name, term in terms.items()}
        metrics["explained_variance"] = explained_variance(values, targets, valid)
        metrics["entropy_cost"] = self._entropy_cost.cost()
        return Losses({LOSS: masked_mean(loss, valid, axis=0)}, None, metrics)
