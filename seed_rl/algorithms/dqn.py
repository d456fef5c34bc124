"""DQN and its descendants: Q-learning from replay of transitions (Mnih et al., 2015; Hessel et al., 2018)."""

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective, num_actions, num_training_envs
from seed_rl.algorithms.dqn_config import DQNConfig
from seed_rl.algorithms.dqn_returns import KINDS, ScalarReturns
from seed_rl.algorithms.q_learning import (
    EpsilonGreedyPolicy,
    Step,
    annealed_epsilon,
    copy_weights,
    copy_weights_when_due,
    observe_in_all,
    training_epsilons,
)
from seed_rl.experience.base import UnrollConfig
from seed_rl.networks.q_network import Head, QNetwork
from seed_rl.ops.means import masked_mean
from seed_rl.ops.rescaling import clip_reward
from seed_rl.ops.returns import NStepReturn, n_step_return
from seed_rl.types import EnvironmentSpec, Sample


class Exploration(tf.Module):
    """Exploration by environment: one epsilon for all that falls, one for each, or noise in the network.

    Attributes:
      noisy: whether training environments explore by noise in the network.
    """

    def __init__(self, config: DQNConfig, num_training_envs: int):
        """Environments from `num_training_envs` on only evaluate."""
        super().__init__()
        self.noisy = config.exploration == "noisy"
        self._config, self._num_training_envs = config, num_training_envs
        self._epsilons = np.zeros(num_training_envs, np.float32)
        self._annealed: tf.Variable | None = None
        if config.exploration == "ladder":
            self._epsilons = training_epsilons(num_training_envs)
        elif config.exploration == "annealed":
            self._annealed = tf.Variable(config.initial_epsilon, trainable=False, name="epsilon")
            self.update(tf.constant(0.0))

    def trains(self, env_ids: tf.Tensor) -> tf.Tensor:
        """Mask of the environments that train: bool `[B]`, by their ids int32 `[B]`."""
        return env_ids < self._num_training_envs

    def epsilons(self, env_ids: tf.Tensor) -> tf.Tensor:
        """The probability of a random action in each environment: float32 `[B]`, by their ids int32 `[B]`."""
        training = tf.gather(self._of_training(), tf.minimum(env_ids, self._num_training_envs - 1))
        return tf.where(self.trains(env_ids), training, self._config.eval_epsilon)

    def mean(self) -> tf.Tensor:
        """The mean over training environments, for the logs."""
        return tf.reduce_mean(self._of_training())

    def update(self, progress: tf.Tensor) -> None:
        """Sets epsilon to its value at this fraction of the run, float32 scalar."""
        if self._annealed is not None:
            config = self._config
            limits = config.initial_epsilon, config.final_epsilon
            self._annealed.assign(annealed_epsilon(progress, *limits, config.epsilon_fraction))

    def _of_training(self) -> tf.Tensor:
        if self._annealed is None:
            return tf.constant(self._epsilons)
        return tf.fill([self._num_training_envs], tf.convert_to_tensor(self._annealed))


class DQNPolicy(EpsilonGreedyPolicy):
    """Takes the action of the highest mean return or, with its environment's epsilon, a random one.

    Noise is drawn for each batch of training environments. Those that evaluate act without.
    """

    def __init__(
        self, network: QNetwork, action_dtype: str, exploration: Exploration, returns: ScalarReturns
    ):
        """`returns` is the meaning of the network's outputs."""
        super().__init__(network, action_dtype, exploration.epsilons, exploration)
        self._returns = returns

    def values(self, features: tf.Tensor, env_ids: tf.Tensor | None) -> tf.Tensor:
        """The values of actions."""
        values = self._returns.q_values(self._network, features, noisy=False)
        if env_ids is None or not self._exploration.noisy:
            return values
        noisy_values = self._returns.q_values(self._network, features, noisy=True)
        return tf.where(self._exploration.trains(env_ids)[:, tf.newaxis], noisy_values, values)


class DQN(Algorithm):
    """Learns from replay of transitions, with a target network; what else it does is a matter of settings."""

    def __init__(self, config: DQNConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__()
        actions = num_actions(env_spec.action, "DQN")
        num_training = num_training_envs(num_envs, config.num_eval_envs)
        # Frames before the first step only fill its stack of frames.
        self.unroll = UnrollConfig(
            config.n_steps, config.net.frame_stack - 1, period=1, stagger=False, keeps_state=False
        )
        self.experience = config.replay
        self.num_eval_envs = config.num_eval_envs
        self._config, self._action_dtype = config, env_spec.action.dtype
        self._returns = KINDS[config.distribution](config)
        self._exploration = Exploration(config, num_training)
        head = Head(
            units=config.net.head_size,
            dueling=config.net.dueling,
            num_outputs=self._returns.num_outputs,
            implicit=self._returns.implicit,
            noisy_sigma=config.net.noisy_sigma if self._exploration.noisy else None,
            start_at_zero=config.net.start_at_zero,
        )
        self._online, self._target = (QNetwork(config.net, env_spec, actions, head) for _ in range(2))
        copy_weights(self._online, self._target)

    @property
    def policy(self) -> DQNPolicy:
        """Acts with the online network."""
        return DQNPolicy(self._online, self._action_dtype, self._exploration, self._returns)

    @property
    def objectives(self) -> dict[str, Objective]:
        """A single objective, for the online network's variables."""
        return {LOSS: Objective(self._online.trainable_variables)}

    def observe(self, sample: Sample) -> None:
        """Updates the running statistics of observations, and keeps them the same in both networks."""
        observe_in_all((self._online, self._target), sample.env)

    def losses(self, sample: Sample) -> Losses:
        """The loss of transitions `[frame_stack - 1 + n + 1, B, ...]`; networks run on two steps of each."""
        first, last, returned = self._transitions(sample)
        action = sample.agent.action[self.unroll.burn_in]
        features, _ = self._online.features(*first)
        fractions = self._returns.fractions(tf.shape(features)[0], for_target=False)
        outputs = self._online.outputs(features, fractions, self._exploration.noisy)
        taken = tf.gather(outputs, action, batch_dims=1)
        target = tf.stop_gradient(self._targets(last, returned))
        loss, error = self._returns.loss(taken, fractions, target)
        valid = tf.logical_not(first.env.truncated)  # The last step of an episode cut short starts nothing.
        loss, error = (tf.where(valid, x, 0.0) for x in (loss, error))

        q_values = self._returns.mean(outputs)
        allowed_values = self._online.mask.apply(q_values, first.env.observation)
        means = {
            "td_error": error,
            "q_value": tf.gather(q_values, action, batch_dims=1),
            "q_max": tf.reduce_max(allowed_values, -1),
            "target": self._returns.mean_target(target),
        }
        metrics = {name: masked_mean(values, valid) for name, values in means.items()}
        metrics["epsilon"] = self._exploration.mean()
        metrics["importance_weight"] = tf.reduce_mean(sample.weight)
        return Losses({LOSS: loss}, error, metrics)

    def _transitions(self, sample: Sample) -> tuple[Step, Step, NStepReturn]:
        """Finds the first step of each transition, the one to bootstrap from, and what comes between them."""
        config, start = self._config, self.unroll.burn_in
        env, batch_size = sample.env, sample.weight.shape[0]
        states = self._online.trunk.states(env, self.policy.initial_state(batch_size))
        returned = n_step_return(
            rewards=clip_reward(env.reward[start + 1 :], config.max_abs_reward),
            discounts=tf.where(env.done[start + 1 :], 0.0, config.discounting),
            cut=env.truncated[start:-1],
        )
        steps = Step(sample.prev_action, env, states)
        last = tf.stack([start + returned.step, tf.range(batch_size)], -1)
        return (
            tf.nest.map_structure(lambda x: x[start], steps),
            tf.nest.map_structure(lambda x: tf.gather_nd(x, last), steps),
            returned,
        )

    def _targets(self, last: Step, returned: NStepReturn) -> tf.Tensor:
        """Targets of the online network's outputs; see `Returns.target`."""
        returns, noisy = self._returns, self._exploration.noisy
        features, _ = self._target.features(*last)
        fractions = returns.fractions(tf.shape(features)[0], for_target=True)
        outputs = self._target.outputs(features, fractions, noisy)
        q_values = returns.mean(outputs)
        if self._config.double:
            online_features, _ = self._online.features(*last)
            q_values = returns.q_values(self._online, online_features, noisy)
        q_values = self._online.mask.apply(q_values, last.env.observation)
        best = tf.gather(outputs, tf.argmax(q_values, -1), batch_dims=1)
        return returns.target(returned.reward, returned.discount, best)

    def after_update(self, iteration: tf.Tensor, progress: tf.Tensor) -> None:
        """Moves the target network when that is due, and epsilon."""
        every, rate = self._config.update_target_every_n_step, self._config.target_update_rate
        copy_weights_when_due(self._online, self._target, iteration, every, rate)
        self._exploration.update(progress)
