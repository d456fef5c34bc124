"""The PPO algorithm: epochs of clipped updates on rollouts (Schulman et al., 2017, algorithm 1)."""

import tensorflow as tf

from seed_rl.algorithms.actor_critic.clipped import ClippedAlgorithm, Transitions
from seed_rl.algorithms.base import Epochs, Losses
from seed_rl.algorithms.ppo.ppo_config import PPOConfig
from seed_rl.algorithms.rollout_parts import bootstrapped, last_step, parts_of
from seed_rl.ops.returns import gae
from seed_rl.types import AgentOutput, EnvironmentSpec, Sample


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
        info, network_state = sample.agent.info, self._network_state(sample)
        last = last_step(self._network.trunk, sample._replace(initial_state=network_state))
        output, _ = self._network.unroll(*last)
        last_value, valid = bootstrapped(output.baseline[-1], sample.env.truncated)
        values = tf.concat([info["baseline"][:-1], last_value[tf.newaxis]], 0)
        advantages = gae(
            rewards=self._reward(sample.env.reward[1:]),
            discounts=self._discounts(sample),
            values=values,
            valid=valid,
            lambda_=self._config.lambda_,
        )
        steps = tf.nest.map_structure(lambda x: x[:-1], (sample.prev_action, sample.env, sample.agent))
        prev_action, env, agent = steps
        transitions = Transitions(
            agent.action,
            info["policy_parameters"][:-1],
            values[:-1],
            advantages,
            advantages + values[:-1],
            valid,
        )
        agent = AgentOutput(agent.action, transitions._asdict())
        return parts_of(self._network.trunk, Sample(prev_action, env, agent, network_state, sample.weight))

    def losses(self, sample: Sample) -> Losses:
        """PPO's loss for a minibatch of what `prepare` returns."""
        output, _ = self._network.unroll(sample.prev_action, sample.env, sample.initial_state)
        return self._clipped_losses(output, Transitions(**sample.agent.info))
