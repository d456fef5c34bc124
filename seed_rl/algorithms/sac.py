"""Soft actor-critic with twin critics and a learned temperature (Haarnoja et al., 2018, arXiv:1812.05905).

With `critic_batch_norm` it is CrossQ (Bhatt et al., ICLR 2024, arXiv:1902.05605), whose critics have batch
normalization and no targets.
"""

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm, Losses, Objective, num_training_envs
from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.algorithms.q_learning import Step, copy_weights, observe_in_all
from seed_rl.algorithms.sac_config import SACConfig
from seed_rl.experience.base import UnrollConfig
from seed_rl.networks.action_mask import FORBIDDEN
from seed_rl.networks.actor_critic import PolicyNetwork
from seed_rl.networks.twin_critics import TwinCritics
from seed_rl.ops import draws
from seed_rl.ops.distributions import Categorical, Normal, bounds_of
from seed_rl.ops.means import masked_mean, num_replicas, part_of_batch
from seed_rl.ops.rescaling import clip_reward
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Nest, Sample

# The names of the objectives.
ACTOR, CRITIC, TEMPERATURE = "actor", "critic", "temperature"

# Adam's, of SAC and of CrossQ (Bhatt et al., 2024, table 1).
_BETA_1, _CROSSQ_BETA_1 = 0.9, 0.5

# From actions `[T, B, ...]` to their `TwinCritics.values`.
Values = Callable[[tf.Tensor], tf.Tensor]


class ContinuousActions:
    """The expectations over a policy's actions in SAC's losses, for a Box.

    One action is drawn by the reparameterization trick (Haarnoja et al., 2018, equations 8 and 9). Densities
    and entropies are those of actions scaled to [-1, 1], so that neither the target entropy nor the
    temperature depends on the units of an environment's actions.

    Attributes:
      distribution: of the actions.
      noise_size: N, random numbers that `expected` needs for an action.
      target_entropy: what the temperature is adjusted for, in nats.
    """

    def __init__(self, spec: ArraySpec, config: SACConfig):
        """Raises ValueError if no component can change, or the bounds are impossible."""
        self.distribution = Normal(spec)
        self.noise_size = size = self.distribution.size
        self.target_entropy = float(-size if config.target_entropy is None else config.target_entropy)
        self._spec, self._bounds = spec, bounds_of(spec)
        self._log_units = float(np.sum(np.log(self._bounds.half_range)))

    def expected(
        self, parameters: tf.Tensor, noise: tf.Tensor, values: Values
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean over the policy's actions of the smaller of both critics' values, and its entropy in nats.

        Or unbiased estimates of both, float32 `[T, B]`, whose gradients with respect to the policy's
        parameters, `[T, B, P]`, improve it. `noise` is standard normal, float32 `[T, B, N]`.
        """
        action, log_prob = self.distribution.sample_with_log_prob(parameters, noise)
        return tf.reduce_min(values(action), 0), -(log_prob + self._log_units)

    def of_action(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """The values of actions `[T, B, ...]`, float32 `[2, T, B]`, from those of `TwinCritics.values`."""
        del action
        return values

    def anything(self, parameters: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """Actions `[B, ...]`, uniform between the bounds, for a policy's parameters `[B, P]`.

        Components that lack a bound are those of a sample of the policy.
        """
        del allowed
        has_bounds = np.reshape(self._bounds.is_bounded, self._spec.shape)
        if not has_bounds.any():
            return self.distribution.sample(parameters)
        share = 2.0 * draws.uniform([tf.shape(parameters)[0], self._spec.size]) - 1.0
        action = self._bounds.middle + self._bounds.half_range * share
        action = tf.reshape(action, [-1, *self._spec.shape])
        if has_bounds.all():
            return action
        return tf.where(has_bounds, action, self.distribution.sample(parameters))


class DiscreteActions:
    """The same for one discrete action, exactly (Christodoulou, "SAC for Discrete Action Settings", 2019)."""

    def __init__(self, spec: ArraySpec, config: SACConfig):
        self.distribution = Categorical(spec)
        self.noise_size = 0
        of_uniform = config.target_entropy_fraction * math.log(spec.num_values[0])
        self.target_entropy = of_uniform if config.target_entropy is None else config.target_entropy

    def expected(
        self, parameters: tf.Tensor, noise: tf.Tensor, values: Values
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Over all actions."""
        smaller = tf.reduce_min(values(noise), 0)
        return tf.reduce_sum(tf.nn.softmax(parameters) * smaller, -1), self.distribution.entropy(parameters)

    def of_action(self, values: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Picks the values of these actions from those of all."""
        return tf.gather(values, tf.stack([action, action]), batch_dims=3)

    def anything(self, parameters: tf.Tensor, allowed: tf.Tensor | None) -> tf.Tensor:
        """All actions with the same probability or, if not None, those `allowed`, bool `[B, A]`."""
        uniform = tf.zeros_like(parameters)
        return self.distribution.sample(uniform if allowed is None else tf.where(allowed, 0.0, FORBIDDEN))


class SACPolicy(Policy):
    """Samples actions in training environments, and takes the mode in those that only evaluate.

    `AgentOutput.info` holds `policy_parameters` `[B, P]`; the loss needs none of it.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        actions: ContinuousActions | DiscreteActions,
        is_random: tf.Variable,
        num_training_envs: int,
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

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Samples, or takes the mode in environments that only evaluate; see `Policy.act`."""
        parameters, state = self._act(prev_action, env, state)
        distribution = self._actions.distribution
        sampled, best = distribution.sample(parameters), distribution.mode(parameters)
        anything = self._actions.anything(parameters, self._network.mask.of(env.observation))
        action = tf.where(self._is_random > 0.0, anything, sampled)
        evaluates = env_ids >= self._num_training_envs
        evaluates = tf.reshape(evaluates, [-1] + [1] * (len(action.shape) - 1))
        return AgentOutput(tf.where(evaluates, best, action), {"policy_parameters": parameters}), state

    def act_greedy(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
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


class Temperature(keras.layers.Layer):
    """Temperature, the weight of entropy (per nat): `alpha = exp(parameter)`, always above 0 (section 5)."""

    def __init__(self, initial: float):
        super().__init__()
        start = keras.initializers.Constant(math.log(initial))
        self._parameter = self.add_weight(shape=(), initializer=start, name="log_temperature")
        self.built = True

    def value(self) -> tf.Tensor:
        """Alpha: float32 scalar."""
        return tf.exp(tf.convert_to_tensor(self._parameter))

    def loss(self, entropy: tf.Tensor, target: float | tf.Tensor) -> tf.Tensor:
        """`alpha (entropy - target)` (equation 18), of any shape; no gradient goes to the entropy."""
        return self.value() * tf.stop_gradient(entropy - target)


class SAC(Algorithm):
    """Learns from single transitions in replay: an actor, two critics and their targets, and a temperature.

    The actor acts. The target critics follow the critics slowly (`target_update_rate`). CrossQ has none; its
    actor has no batch normalization here, and is updated as often as the critics, not every third time.
    """

    def __init__(self, config: SACConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__()
        action = env_spec.action
        if action.is_discrete and action.shape != ():
            raise ValueError(
                f"SAC needs continuous actions or one discrete action, but the environment's is {action}; "
                "choose another --agent."
            )
        self._actions = (DiscreteActions if action.is_discrete else ContinuousActions)(action, config)
        self._first = config.net.frame_stack - 1  # The step that a transition starts at.
        self.unroll = UnrollConfig(1, burn_in=self._first, period=1, stagger=False, keeps_state=False)
        self.experience = config.replay
        self.num_eval_envs = config.num_eval_envs
        self._num_training_envs = num_training_envs(num_envs, config.num_eval_envs)
        self._config = config
        self._actor = PolicyNetwork(config.net, env_spec, self._actions.distribution.num_parameters)
        sizes = config.net.mlp_sizes if config.critic_sizes is None else config.critic_sizes
        critic = dataclasses.replace(config.net, mlp_sizes=sizes)
        self._critics = TwinCritics(critic, env_spec, config.critic_batch_norm)
        self._targets = None if config.critic_batch_norm else TwinCritics(critic, env_spec)
        self._temperature = Temperature(config.initial_temperature)
        rates = {
            ACTOR: config.actor_learning_rate,
            CRITIC: config.critic_learning_rate,
            TEMPERATURE: config.temperature_learning_rate,
        }
        # Not among the algorithm's own variables: the trainer saves them under names of their own. 1e-8 is
        # what the paper's code takes from TensorFlow.
        self._optimizers = types.SimpleNamespace(
            by_objective={
                name: keras.optimizers.Adam(
                    rate, beta_1=_BETA_1 if self._targets else _CROSSQ_BETA_1, epsilon=1e-8
                )
                for name, rate in rates.items()
            }
        )
        self._is_random = tf.Variable(float(config.random_start), trainable=False, name="is_random")
        # The seed of the next update's random numbers.
        self._seed = tf.Variable(
            tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int64), trainable=False, name="seed"
        )
        if self._targets:
            copy_weights(self._critics, self._targets)

    @property
    def policy(self) -> SACPolicy:
        """Acts with the actor."""
        return SACPolicy(self._actor, self._actions, self._is_random, self._num_training_envs)

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """One for the actor, one for both critics, one for the temperature, each with its own optimizer."""
        variables: dict[str, Any] = {
            ACTOR: self._actor.trainable_variables,
            CRITIC: self._critics.trainable_variables,
            TEMPERATURE: self._temperature.trainable_variables,
        }
        optimizers = self._optimizers.by_objective
        return {name: Objective(variables[name], optimizers[name]) for name in variables}

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations, and keeps them the same in all networks."""
        networks = (self._actor, self._critics, self._targets)
        observe_in_all([network for network in networks if network], sample.env)

    def losses(self, sample: Sample) -> Losses:
        """The losses of transitions `[frame_stack + 1, B, ...]`, from the step before the last to the last.

        All three are at the step that a transition starts at (equations 5, 9 and 18). The trainer
        differentiates each by its own variables only, so the actor's leaves the critics as they are.
        """
        now, later, parameters = self._steps(sample)
        noise = self._noise(sample.weight.shape[0])
        valid = tf.logical_not(now.env.truncated[0])
        temperature = self._temperature.value()

        features = self._critics.features(*now)
        action = sample.agent.action[self._first : self._first + 1]
        values, later_values = self._values(features, action, later)
        target = self._target(later, parameters[1:], noise[1:], temperature, later_values)
        taken = self._actions.of_action(values(), action)[:, 0]
        errors = tf.where(valid, tf.stop_gradient(target) - taken, 0.0)  # [2, B]

        value, entropy = self._actions.expected(
            parameters[:1], noise[:1], functools.partial(self._critics.values, features)
        )
        value, entropy = value[0], entropy[0]
        losses = {
            ACTOR: -(value + temperature * entropy),
            CRITIC: 0.5 * tf.reduce_sum(tf.square(errors), 0),
            TEMPERATURE: self._temperature.loss(entropy, self._target_entropy(now)),
        }
        sizes = tf.reduce_mean(tf.abs(errors), 0)
        means = {"q_value": tf.reduce_mean(taken, 0), "target": target, "entropy": entropy, "td_error": sizes}
        return Losses(
            {name: tf.where(valid, loss, 0.0) for name, loss in losses.items()},
            sizes if self._config.replay.priority_exponent else None,
            {name: masked_mean(x, valid) for name, x in means.items()} | {"temperature": temperature},
        )

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Moves the target critics, ends the time of random actions, and changes the seed."""
        del iteration, progress
        if self._targets:
            copy_weights(self._critics, self._targets, self._config.target_update_rate)
        self._is_random.assign(0.0)
        self._seed.assign_add([0, 1])

    def _steps(self, sample: Sample) -> tuple[Step, Step, tf.Tensor]:
        """The first and the second step of each transition, and the policy's parameters there `[2, B, P]`."""
        states = self._actor.trunk.states(sample.env, self._actor.trunk.initial_state(sample.weight.shape[0]))

        def steps(start: int, stop: int) -> Step:
            both = sample.prev_action, sample.env
            prev_action, env = tf.nest.map_structure(lambda x: x[start:stop], both)
            return Step(prev_action, env, tf.nest.map_structure(lambda x: x[start], states))

        first = self._first
        parameters, _ = self._actor.unroll(*steps(first, first + 2))
        return steps(first, first + 1), steps(first + 1, first + 2), parameters

    def _values(
        self, features: tf.Tensor, action: tf.Tensor, later: Step
    ) -> tuple[Callable[[], tf.Tensor], Values]:
        """Functions that give the values `[2, 1, B, ...]` of the actions taken, and those of next actions.

        CrossQ evaluates all in one batch, which is normalized by its statistics (Bhatt et al., 2024, section
        4.2), so the second function is to be called first.
        """
        if self._targets:
            targets = functools.partial(self._targets.values, self._targets.features(*later))
            return functools.partial(self._critics.values, features, action), targets
        both, found = tf.concat([features, self._critics.features(*later)], 0), list[tf.Tensor]()

        def later_values(next_action: tf.Tensor) -> tf.Tensor:
            actions = action if action.dtype.is_integer else tf.concat([action, next_action], 0)
            found[:] = tf.split(self._critics.values(both, actions, training=True), 2, axis=1)
            return found[1]

        return lambda: found[0], later_values

    def _target(
        self,
        later: Step,
        parameters: tf.Tensor,
        noise: tf.Tensor,
        temperature: tf.Tensor,
        values: Values,
    ) -> tf.Tensor:
        """`r + gamma (min over both targets of Q(s', a') - alpha log pi(a' | s'))`: `[B]`, equations 3 and 5.

        Nothing is bootstrapped where the episode terminates; where it is truncated, s' is its last state.
        """
        value, entropy = self._actions.expected(parameters, noise, values)
        discount = tf.where(later.env.done[0], 0.0, self._config.discounting)
        reward = clip_reward(later.env.reward[0], self._config.max_abs_reward)
        return reward + discount * (value + temperature * entropy)[0]

    def _target_entropy(self, step: Step) -> float | tf.Tensor:
        """Entropy that the temperature aims at: with action masks `[B]`, by the number of allowed actions."""
        allowed = self._actor.mask.of(step.env.observation)
        if allowed is None or self._config.target_entropy is not None:
            return self._actions.target_entropy
        number = tf.reduce_sum(tf.cast(allowed[0], tf.float32), -1)
        return self._config.target_entropy_fraction * tf.math.log(number)

    def _noise(self, batch_size: int) -> tf.Tensor:
        """Standard normal `[2, B, N]`, for both steps of each transition, on however many devices."""
        with draws.seeded(tf.cast(self._seed, tf.int32)):
            whole = draws.normal(tf.constant([2, batch_size * num_replicas(), self._actions.noise_size]))
        return part_of_batch(whole, 1)
