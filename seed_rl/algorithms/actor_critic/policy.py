"""The policy of actor-critic algorithms: it samples from the network's action distribution."""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.networks.actor_critic import ActorCritic
from seed_rl.networks.scaling import RunningScale
from seed_rl.ops.distributions import ActionDistribution
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput, Nest


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
        return reward * self._statistics.affine().scale


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

    def act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Samples from the policy; see `Policy.act`."""
        del env_ids
        return self._act(prev_action, env, state, self._distribution.sample)

    def act_greedy(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest]:
        """Takes the policy's mode; otherwise like `act`."""
        del env_ids
        return self._act(prev_action, env, state, self._distribution.mode)

    def _act(
        self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, choose: Any
    ) -> tuple[AgentOutput, Nest]:
        if self._reward_scale:
            state, sums = state
            sums = self._reward_scale.next_state(env, sums)
        prev_action, env = tf.nest.map_structure(lambda x: x[tf.newaxis], (prev_action, env))
        output, state = self._network.unroll(prev_action, env, state)
        if self._reward_scale:
            state = state, sums
        info = {name: array[0] for name, array in output._asdict().items()}
        return AgentOutput(choose(info["policy_parameters"]), info), state
