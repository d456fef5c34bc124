"""The policy of actor-critic algorithms: it samples from the network's action distribution."""

from typing import Any

import tensorflow as tf

from seed_rl.algorithms.actor_critic.reward_scale import RewardScale
from seed_rl.algorithms.policy import Policy
from seed_rl.networks.actor_critic import ActorCritic
from seed_rl.ops.distributions import ActionDistribution
from seed_rl.types import AgentOutput, EnvOutput, Nest


class ActorCriticPolicy(Policy):
    """Samples from the action distribution that an actor-critic network outputs.

    `AgentOutput.info` holds `policy_parameters` `[B, P]` (of the behaviour policy) and `baseline` `[B]`.
    """

    def __init__(
        self, network: ActorCritic, distribution: ActionDistribution, reward_scale: RewardScale | None
    ):
        """Acts with a network whose variables belong to the algorithm, and keeps `reward_scale`'s sums."""
        super().__init__(name="actor_critic_policy")
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
