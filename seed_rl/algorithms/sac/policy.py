"""SAC's policy, and the parts of SAC that differ between continuous and discrete actions."""

import abc
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.algorithms.sac.sac_config import SACConfig
from seed_rl.networks.action_mask import FORBIDDEN
from seed_rl.networks.actor_critic import PolicyNetwork
from seed_rl.ops import draws
from seed_rl.ops.distributions import ActionDistribution, Categorical, Normal, bounds_of, distribution_for
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Nest

# Value and entropy in nats, float32 `[T, B]` each.
Expected = tuple[tf.Tensor, tf.Tensor]
# From actions `[T, B, ...]` to their `TwinCritics.values`.
Values = Callable[[tf.Tensor], tf.Tensor]


class Actions(abc.ABC):
    """The expectations over a policy's actions in SAC's losses; `actions_for(spec, config)` makes one.

    Attributes:
      distribution: of the actions.
      noise_size: N, random numbers that `expected` needs for an action.
      target_entropy: what the temperature is adjusted for, in nats.
    """

    distribution: ActionDistribution
    noise_size: int
    target_entropy: float

    @abc.abstractmethod
    def expected(self, parameters: tf.Tensor, noise: tf.Tensor, values: Values) -> Expected:
        """The mean over the policy's actions of the smaller of both critics' values, and its entropy.

        Or unbiased estimates of both, whose gradients with respect to the policy's parameters, `[T, B, P]`,
        improve it. `noise` is standard normal, float32 `[T, B, N]`.
        """

    @abc.abstractmethod
    def of_action(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """The values of actions `[T, B, ...]`, float32 `[2, T, B]`, from those of `TwinCritics.values`."""

    @abc.abstractmethod
    def anything(self, parameters: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """Actions `[B, ...]`, uniformly random where that is possible, for a policy's parameters `[B, P]`.

        If `allowed`, bool `[B, A]`, is not None, only allowed actions are drawn.
        """


class ContinuousActions(Actions):
    """One action is drawn by the reparameterization trick (Haarnoja et al., 2018, equations 8 and 9).

    Densities and entropies are those of actions scaled to [-1, 1], so that neither the target entropy nor
    the temperature depends on the units of an environment's actions.
    """

    def __init__(self, spec: ArraySpec, config: SACConfig):
        distribution = distribution_for(spec)
        assert isinstance(distribution, Normal)
        self.distribution: Normal = distribution
        self.noise_size = size = distribution.size
        self.target_entropy = float(-size if config.target_entropy is None else config.target_entropy)
        self._spec, self._bounds = spec, bounds_of(spec)
        self._log_units = float(np.sum(np.log(self._bounds.half_range)))

    def expected(self, parameters: tf.Tensor, noise: tf.Tensor, values: Values) -> Expected:
        """From one action in each state."""
        action, log_prob = self.distribution.sample_with_log_prob(parameters, noise)
        return tf.reduce_min(values(action), 0), -(log_prob + self._log_units)

    def of_action(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """The values themselves, which are already of these actions."""
        del action
        return values

    def anything(self, parameters: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """Uniform between the bounds; components that lack one are those of a sample of the policy."""
        del allowed
        has_bounds = np.reshape(self._bounds.is_bounded, self._spec.shape)
        if not has_bounds.any():
            return self.distribution.sample(parameters)
        share = 2.0 * draws.uniform([tf.shape(parameters)[0], self._spec.size]) - 1.0
        action = self._bounds.middle + self._bounds.half_range * share
        action = tf.reshape(action, [-1, *self._spec.shape])
        return (
            action if has_bounds.all() else tf.where(has_bounds, action, self.distribution.sample(parameters))
        )


class DiscreteActions(Actions):
    """The mean over all actions is exact (Christodoulou, "SAC for Discrete Action Settings", 2019)."""

    def __init__(self, spec: ArraySpec, config: SACConfig):
        self.distribution = Categorical(spec)
        self.noise_size = 0
        of_uniform = config.target_entropy_fraction * math.log(spec.num_values[0])
        self.target_entropy = of_uniform if config.target_entropy is None else config.target_entropy

    def expected(self, parameters: tf.Tensor, noise: tf.Tensor, values: Values) -> Expected:
        """Over all actions."""
        smaller = tf.reduce_min(values(noise), 0)
        return tf.reduce_sum(tf.nn.softmax(parameters) * smaller, -1), self.distribution.entropy(parameters)

    def of_action(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Picks the values of these actions from those of all."""
        return tf.gather(values, tf.stack([action, action]), batch_dims=3)

    def anything(self, parameters: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """All allowed actions with the same probability."""
        uniform = tf.zeros_like(parameters)
        return self.distribution.sample(uniform if allowed is None else tf.where(allowed, 0.0, FORBIDDEN))


def actions_for(spec: ArraySpec, config: SACConfig) -> Actions:
    """The `Actions` that fit an action spec.

    Raises:
      ValueError: SAC has no mathematics for it, or a Box has impossible bounds.
    """
    if not spec.is_discrete:
        return ContinuousActions(spec, config)
    if spec.shape == ():
        return DiscreteActions(spec, config)
    raise ValueError(
        f"SAC needs continuous actions or one discrete action, but the environment's is {spec}; choose "
        "another --agent."
    )


class SACPolicy(Policy):
    """Samples actions in training environments, and takes the mode in those that only evaluate.

    `AgentOutput.info` holds `policy_parameters` `[B, P]`; the loss needs none of it.
    """

    def __init__(
        self, network: PolicyNetwork, actions: Actions, is_random: tf.Variable, num_training_envs: int
    ):
        """The variables belong to the algorithm.

        `is_random` is 1 while training environments take uniformly random actions, then 0. Environments from
        `num_training_envs` on only evaluate.
        """
        super().__init__()
        self._network, self._actions, self._is_random = network, actions, is_random
        self._num_training_envs = num_training_envs

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The state of frame stacking; an empty tuple if there is none."""
        return self._network.trunk.initial_state(batch_size)

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Samples, or takes the mode in environments that only evaluate; see `Policy.act`."""
        parameters, state = self._act(prev_action, env, state)
        distribution = self._actions.distribution
        sampled, best = distribution.sample(parameters), distribution.mode(parameters)
        anything = self._actions.anything(parameters, self._network.mask.of(env.observation))
        action = tf.where(self._is_random > 0.0, anything, sampled)
        evaluates = env_ids >= self._num_training_envs
        evaluates = tf.reshape(evaluates, [-1] + [1] * (len(action.shape) - 1))
        return AgentOutput(tf.where(evaluates, best, action), {"policy_parameters": parameters}), state

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the mode; otherwise like `act`."""
        del env_ids
        parameters, state = self._act(prev_action, env, state)
        best = self._actions.distribution.mode(parameters)
        return AgentOutput(best, {"policy_parameters": parameters}), state

    def _act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """The distribution's parameters `[B, P]` and the next state."""
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        parameters, state = self._network.unroll(prev_action, env, state)
        return parameters[0], state
