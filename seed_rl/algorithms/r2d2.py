"""R2D2: recurrent Q-learning from prioritized replay (Kapturowski et al., 2019)."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective, num_actions, num_training_envs
from seed_rl.algorithms.q_learning import (
    EpsilonGreedyPolicy,
    copy_weights,
    copy_weights_when_due,
    observe_in_all,
    training_epsilons,
)
from seed_rl.algorithms.r2d2_config import R2D2Config
from seed_rl.experience.base import UnrollConfig
from seed_rl.networks.q_network import Head, QNetwork
from seed_rl.ops.means import masked_mean
from seed_rl.ops.rescaling import clip_reward, rescale, undo_rescale
from seed_rl.ops.returns import n_step_targets
from seed_rl.types import AgentOutput, EnvironmentSpec, EnvOutput, Nest, Sample


class R2D2(Algorithm):
    """Learns from replay by double Q-learning with n-step targets.

    The online network acts and learns. The target network holds the weights that the online one had at the
    last multiple of `update_target_every_n_step` updates.
    """

    def __init__(self, config: R2D2Config, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__()
        actions = num_actions(env_spec.action, "R2D2")
        num_training = num_training_envs(num_envs, config.num_eval_envs)
        self.unroll = UnrollConfig(config.unroll_length, config.burn_in)
        self.experience = config.replay
        self.num_eval_envs = config.num_eval_envs
        self._config = config
        self._action_dtype = env_spec.action.dtype
        # One for each training environment, by id, then one shared by all others.
        self._epsilons = np.append(training_epsilons(num_training), np.float32(config.eval_epsilon))
        head = Head(config.net.head_size, dueling=True, start_at_zero=config.net.start_at_zero)
        self._online, self._target = (QNetwork(config.net, env_spec, actions, head) for _ in range(2))
        copy_weights(self._online, self._target)

    @property
    def policy(self) -> EpsilonGreedyPolicy:
        """Acts with the online network; each environment has its own epsilon."""

        def epsilons(env_ids: tf.Tensor) -> tf.Tensor:
            return tf.gather(self._epsilons, tf.minimum(env_ids, len(self._epsilons) - 1))

        return EpsilonGreedyPolicy(self._online, self._action_dtype, epsilons)

    @property
    def objectives(self) -> dict[str, Objective]:
        """A single objective, for the online network's variables."""
        return {LOSS: Objective(self._online.trainable_variables)}

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations, and keeps them the same in both networks."""
        observe_in_all((self._online, self._target), sample.env)

    def losses(self, sample: Sample) -> Losses:
        """Squared temporal differences of unrolls `[burn_in + T + 1, B, ...]`.

        Both networks start from the stored state and are unrolled over the burn-in before the steps that are
        trained on (Kapturowski et al., section 3).
        """
        q_values = self._q_values(self._online, sample)
        target_q_values = self._q_values(self._target, sample)
        action, env = self._without_burn_in((sample.agent.action, sample.env._replace(observation=())))
        errors, valid, taken, targets = self._differences(q_values, target_q_values, action, env)
        priority = self._priorities(errors, valid)
        best = undo_rescale(tf.reduce_max(q_values[:-1], -1), self._config.value_function_rescaling_epsilon)
        metrics = {
            "td_error": masked_mean(tf.abs(errors), valid),
            "q_value": masked_mean(taken, valid),
            "q_max": masked_mean(best, valid),
            "target": masked_mean(targets, valid),
            "priority": tf.reduce_mean(priority),
            "importance_weight": tf.reduce_mean(sample.weight),
        }
        # A sum over time: the clip norm of 80 and Adam's epsilon of 1e-3 (SEED RL, Table 8) fit a sum.
        return Losses({LOSS: 0.5 * tf.reduce_sum(tf.square(errors), 0)}, priority, metrics)

    def _q_values(self, network: QNetwork, sample: Sample) -> tf.Tensor:
        """A network's Q-values at the steps after the burn-in: `[T + 1, B, A]`."""
        steps, state = (sample.prev_action, sample.env), sample.initial_state
        if burn_in := self._config.burn_in:
            prev_action, env = tf.nest.map_structure(lambda x: x[:burn_in], steps)
            _, state = network.unroll(prev_action, env, state)
            state = tf.nest.map_structure(tf.stop_gradient, state)
        prev_action, env = self._without_burn_in(steps)
        return network.unroll(prev_action, env, state)[0]

    def _without_burn_in(self, steps: Nest) -> Nest:
        """Drops the burn-in: from arrays `[S, ...]` to `[T + 1, ...]`."""
        return tf.nest.map_structure(lambda x: x[self._config.burn_in :], steps)

    def _differences(
        self, q_values: tf.Tensor, target_q_values: tf.Tensor, action: tf.Tensor, env: EnvOutput
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Errors of n-step double Q-learning with rescaled values (Kapturowski et al., section 2.3).

        `h(r_t + ... + gamma^{n-1} r_{t+n-1} + gamma^n h^-1(Q_target(x_{t+n}, a*))) - Q(x_t, a_t)`, where a*
        is the best action at step t + n according to `q_values`. Gradients flow only through `Q(x_t, a_t)`.
        Arrays are `[T + 1, B, ...]`; the observation is not used.

        Returns:
          `[T, B]` each: errors, 0 where a transition is not experience; whether it is; Q-values of the
          actions taken, both on the rescaled scale; targets, in units of reward.
        """
        config, epsilon = self._config, self._config.value_function_rescaling_epsilon
        best = tf.argmax(q_values, -1)
        targets = n_step_targets(
            rewards=clip_reward(env.reward[1:], config.max_abs_reward),
            discounts=tf.where(env.done[1:], 0.0, config.discounting),
            values=undo_rescale(tf.gather(target_q_values, best, batch_dims=2), epsilon),
            cut=env.truncated[:-1],
            n=config.n_steps,
        )
        taken = tf.gather(q_values[:-1], action[:-1], batch_dims=2)
        valid = tf.logical_not(env.truncated[:-1])
        errors = tf.where(valid, tf.stop_gradient(rescale(targets, epsilon)) - taken, 0.0)
        return errors, valid, taken, targets

    def _priorities(self, errors: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """`eta max |delta| + (1 - eta) mean |delta|` over an unroll's transitions (section 2.3): `[B]`."""
        sizes, eta = tf.abs(errors), self._config.eta
        return eta * tf.reduce_max(sizes, 0) + (1.0 - eta) * masked_mean(sizes, valid, axis=0)

    def initial_priority(self, env: EnvOutput, agent: AgentOutput) -> tf.Tensor:
        """Priorities from the Q-values used in acting, which stand in for both networks; see the protocol."""
        env, agent = self._without_burn_in((env, agent))
        q_values = agent.info["q_values"]
        errors, valid, _, _ = self._differences(q_values, q_values, agent.action, env)
        return self._priorities(errors, valid)

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Copies the weights to the target network when a copy is due."""
        del progress
        every = self._config.update_target_every_n_step
        copy_weights_when_due(self._online, self._target, iteration, every)
