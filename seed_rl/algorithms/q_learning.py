"""Parts of algorithms that learn Q-values: epsilon-greedy policies, and target networks."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.networks.q_network import QNetwork
from seed_rl.ops import draws
from seed_rl.types import AgentOutput, EnvOutput, Nest


class Step(NamedTuple):
    """Arguments of networks for one step of each transition: arrays and nests of `[B, ...]`."""

    prev_action: tf.Tensor
    env: EnvOutput
    state: Nest


def training_epsilons(num_envs: int) -> np.ndarray:
    """`0.4^(1 + 7 i / (N - 1))` for environment i of N: float32 `[N]`, from 0.4 down to 0.4^8; 0.4 if N = 1.

    Environments that mostly explore and environments that mostly exploit play at the same time (Horgan et
    al., "Ape-X", 2018, section 4.1; SEED RL, 2020, Table 8).
    """
    return (0.4 ** np.linspace(1.0, 8.0, num_envs)).astype(np.float32)


def annealed_epsilon(progress: tf.Tensor, initial: float, final: float, fraction: float) -> tf.Tensor:
    """From `initial` to `final` in a line over a fraction of the run, then `final` (Mnih et al., 2015).

    `progress` is the fraction of the run that is complete. It and epsilon are float32 scalars.
    """
    share = tf.minimum(progress / fraction, 1.0) if fraction else tf.ones_like(progress)
    return initial + share * (final - initial)


def epsilon_greedy(q_values: tf.Tensor, epsilons: tf.Tensor, allowed: tf.Tensor | None = None) -> tf.Tensor:
    """From values `[B, A]` to actions int64 `[B]`: the best or, with probability epsilon `[B]`, any one.

    If only some are `allowed`, bool `[B, A]`, any one of those; forbidden ones have values below all others.
    """
    greedy = tf.argmax(q_values, -1)
    explores = draws.uniform(tf.shape(greedy)) < epsilons
    if allowed is None:
        anything = draws.uniform(tf.shape(greedy), maxval=q_values.shape[-1], dtype=tf.int64)
    else:
        anything = tf.argmax(tf.where(allowed, draws.uniform(tf.shape(q_values)), -1.0), -1)
    return tf.where(explores, anything, greedy)


class EpsilonGreedyPolicy(Policy):
    """A policy for one discrete action.

    `AgentOutput.info` holds `q_values` `[B, A]`, on the scale on which they are learned.

    Attributes:
      epsilons: from ids of environments int32 `[B]` to the probabilities of a random action, float32 `[B]`.
    """

    def __init__(
        self,
        network: QNetwork,
        action_dtype: str,
        epsilons: Callable[[tf.Tensor], tf.Tensor],
        exploration: Any = None,
    ):
        """The network, and the variables in `exploration` that epsilons depend on, are the algorithm's."""
        super().__init__()
        self._network, self._action_dtype = network, action_dtype
        self.epsilons, self._exploration = epsilons, exploration

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The network's state; an empty tuple if it has none."""
        return self._network.trunk.initial_state(batch_size)

    def values(self, features: tf.Tensor, env_ids: tf.Tensor | None) -> tf.Tensor:
        """Q-values float32 `[B, A]`, by default the network's only outputs, from its features `[B, F]`.

        Without `env_ids`, int32 `[B]`, there is no exploration.
        """
        del env_ids
        return self._network.outputs(features)[..., 0]

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Takes the best action or, with the environment's epsilon, a random one; see `Policy.act`."""
        return self._act(prev_action, env, state, env_ids)

    def act_greedy(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Takes the best action; otherwise like `act`."""
        return self._act(prev_action, env, state, None)

    def _act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor | None) -> Acted:
        features, state = self._network.features(prev_action, env, state)
        q_values = self._network.mask.apply(self.values(features, env_ids), env.observation)
        if env_ids is None:
            action = tf.argmax(q_values, -1)
        else:
            allowed = self._network.mask.of(env.observation)
            action = epsilon_greedy(q_values, self.epsilons(env_ids), allowed)
        return AgentOutput(tf.cast(action, self._action_dtype), {"q_values": q_values}), state


def copy_weights(online: Any, target: Any, rate: float = 1.0) -> None:
    """Moves a Keras layer's variables by a share of the way towards another's of the same structure.

    A rate of 1 copies (Mnih et al., 2015), a small one makes the target a running mean (Polyak averaging;
    Lillicrap et al., 2015, section 3).
    """
    for variable, follower in zip(online.variables, target.variables, strict=True):
        if rate == 1.0:
            follower.assign(variable)
        else:
            old = tf.convert_to_tensor(follower)
            share = tf.cast(rate, old.dtype)
            follower.assign(old + share * (tf.convert_to_tensor(variable) - old))


def copy_weights_when_due(
    online: Any, target: Any, iteration: tf.Tensor, every: int, rate: float = 1.0
) -> None:
    """Calls `copy_weights` after each `every`-th update; may be traced. `iteration` counts from 1."""

    def copy() -> tf.Tensor:
        copy_weights(online, target, rate)
        return tf.constant(True)

    tf.cond(tf.equal(iteration % every, 0), copy, lambda: tf.constant(False))


def observe_in_all(networks: Sequence[Any], env: EnvOutput) -> None:
    """Updates the running statistics of observations `[S, B, ...]`, and keeps them the same in all networks.

    These are Keras layers with a `trunk`, which all have the same variables that are not trained.
    """
    first, *others = networks
    first.trunk.observe(env)
    for network in others:
        pairs = zip(first.trunk.non_trainable_variables, network.trunk.non_trainable_variables, strict=True)
        for variable, follower in pairs:
            follower.assign(variable)
