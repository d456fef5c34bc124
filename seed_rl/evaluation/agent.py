"""Acting by a trained policy: on an environment's own observations, and through whole episodes."""

import contextlib
import copy
import itertools
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig, Info, Suite, ends_episode, raw_reward
from seed_rl.environments.batched import empty_output
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig, Fault
from seed_rl.environments.observations import observation_leaves
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.specs import Spaces, environment_spec
from seed_rl.evaluation.load import PlayConfig
from seed_rl.metrics.episodes import of_info
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest, flatten_like


class PlayedEpisode(NamedTuple):
    """An episode that was played to its end.

    Attributes:
      number: determines the seed, together with that of the evaluation. Numbers count from 0; those of void
        episodes are left out.
      seed: the seed of the environment's reset; with `actions`, it reproduces the episode.
      actions: one per agent step, in the environment's own format.
      episode_return: sum of the raw rewards.
      figures: those of the environment's own, not checked yet.
    """

    number: int
    seed: int
    actions: list[Any]
    episode_return: float
    figures: Mapping[str, float] = {}

    @property
    def agent_steps(self) -> int:
        """Its length, in agent steps."""
        return len(self.actions)


class Share:
    """The episodes that are assigned to one environment, and to those that replace it if it fails.

    The environment is a batch of its own. So its steps are complete if another environment fails for good,
    and the episodes that end with them are not lost.

    Attributes:
      batch: the environment.
      left: the number of episodes that are still to be played.
      next: the number and the seed of each episode; if some are void, others follow the first ones.
      has_begun: whether an episode has, in this agent step.
      ended: the episode that has ended in this agent step, if its environment is not found to have failed.
    """

    def __init__(
        self, suite: Suite, config: EnvironmentConfig, seed: int, numbers: range, tolerance: FailureConfig
    ):
        """Makes the environment for the episodes with these numbers."""
        self.left = len(numbers)
        self.next = ((n, derived_seed(seed, n)) for n in itertools.count(numbers.start, numbers.step))
        self.has_begun = False
        self.ended: PlayedEpisode | None = None
        recorded = Suite(suite.config_class, lambda config, seed: _Recorded(suite.make(config, seed), self))
        seeds = [derived_seed(seed, numbers.start)]
        self.batch = SingleEnvironments(recorded, config, seeds, tolerance, numbers.start)

    def step(self, action: np.ndarray) -> Iterator[PlayedEpisode]:
        """Takes an agent step, `[1, ...]`; yields the episode that ends with it, if one does.

        Raises:
          EnvironmentFailedError: the environment failed too often to play all of its episodes.
        """
        failure, self.has_begun = None, False
        try:
            _, (info,) = self.batch.step(action)
            is_good = not info.get(Info.EPISODE_IS_VOID, False)
        except EnvironmentFailedError as error:
            failure, is_good = error, self.has_begun  # Only after the end of one is another begun.
        ended, self.ended = self.ended, None
        if ended is not None and is_good:
            self.left -= 1
            yield ended
        if failure is not None and self.left:
            raise failure


class _Recorded(gymnasium.Wrapper):
    """Gives each episode its own seed, and records its actions and its return.

    The environment's results are passed on as they are: `SingleEnvironments` checks them.
    """

    def __init__(self, env: gymnasium.Env, share: Share):
        super().__init__(env)
        self._share, self._continues = share, False
        self._episode = PlayedEpisode(0, 0, [], 0.0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts the next episode, or continues one in which only a life was lost."""
        if self._continues:
            self._continues = False
            return self.env.reset()
        self._share.has_begun = True
        self._episode = PlayedEpisode(*next(self._share.next), [], 0.0)
        return self.env.reset(seed=self._episode.seed)

    def step(self, action: Any) -> Any:
        """Takes one agent step and records it."""
        self._episode.actions.append(copy.copy(action))  # The environment may change its own in place.
        outcome: Any = self.env.step(action)
        try:
            _, reward, terminated, truncated, info = outcome
            total = self._episode.episode_return + raw_reward(reward, info)
            self._episode = self._episode._replace(episode_return=total)
            ended = bool(terminated or truncated)
            self._continues = ended and not ends_episode(ended, info)
        except Exception:
            return outcome
        if ended and not self._continues:
            self._share.ended = self._episode._replace(figures=of_info(info))
        return outcome


def play(
    suite: Suite,
    environment_config: EnvironmentConfig,
    policy: Policy,
    env_id: int,
    config: PlayConfig,
) -> Iterator[PlayedEpisode]:
    """Plays episodes in up to E = `num_envs` environments at the same time, and yields each as it ends.

    Episodes are assigned to environments in advance, so that short episodes do not count more often than
    long ones. Another episode is played for each that is void because its environment failed. Policies get
    `env_id` for every environment; ids from the run's `num_envs` upwards mean evaluation. No more agent
    steps are played than `max_agent_steps`, of all environments together; what is unfinished then is dropped.

    Raises:
      ValueError: the suite refuses the configuration, or the environments have different spaces.
      ImportError: the suite's engine is not installed.
      EnvironmentFailedError: an environment failed too often. Every episode that ended before was yielded.
    """
    episodes = config.episodes_asked or sys.maxsize
    size = min(config.num_envs, episodes)
    with contextlib.ExitStack() as stack:
        shares = []
        for index in range(size):
            numbers = range(index, episodes, size)
            shares.append(Share(suite, environment_config, config.seed, numbers, config.failures))
            stack.callback(shares[-1].batch.close)
        spec = shares[0].batch.spec
        env = empty_output(spec, size)
        for index, share in enumerate(shares):
            if share.batch.spec != spec:
                raise ValueError(
                    f"Environment {index} has {share.batch.spec}, but environment 0 has {spec}; environments "
                    "that play together must have equal spaces."
                )
            share.batch.write_to(tf.nest.map_structure(lambda x, i=index: x[i : i + 1], env))
            share.batch.reset()
        choose = Choice(policy, spec, size, env_id, config.greedy)
        steps_left = config.max_agent_steps or sys.maxsize
        while any(share.left for share in shares):
            playing = np.array([share.left > 0 for share in shares])
            steps_left -= int(np.count_nonzero(playing & ~env.truncated))  # A reset is no agent step.
            if steps_left < 0:
                return
            for share, action in zip(shares, np.split(choose(env), size), strict=True):
                if share.left:
                    yield from share.step(action)


class Choice:
    """Chooses actions with the policy, and keeps the recurrent states and last actions of E environments."""

    def __init__(self, policy: Policy, spec: EnvironmentSpec, num_envs: int, env_id: int, greedy: bool):
        self._act = tf.function(policy.act_greedy if greedy else policy.act, autograph=False)
        self._state: Nest = policy.initial_state(num_envs)
        self._prev_action = tf.constant(spec.action.zeros(num_envs))
        self._env_ids = tf.fill([num_envs], env_id)

    def __call__(self, env: EnvOutput) -> np.ndarray:
        """Actions `[E, ...]` for the environments' outputs, `[E, ...]`."""
        env = tf.nest.map_structure(tf.constant, env)
        output, self._state = self._act(self._prev_action, env, self._state, self._env_ids)
        self._prev_action = output.action
        return output.action.numpy()


class Agent:
    """Chooses actions, and keeps what the policy remembers: recurrent states, stacked frames, last actions.

    Attributes:
      observation_space: Gymnasium's, of one environment.
      action_space: likewise.
      num_envs: N, the environments of a batch; None for one environment without a batch axis.
    """

    def __init__(
        self,
        policy: Policy,
        env: gymnasium.Env | Spaces,
        config: EnvironmentConfig,
        env_id: int,
        num_envs: int | None = None,
        greedy: bool = False,
    ):
        """An agent for environments with the spaces of `env`; the policy gets `env_id` for all of them."""
        spec = environment_spec(env, config)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.num_envs = num_envs
        self._readers = observation_leaves(env.observation_space)
        self._decode = action_decoder(env.action_space)
        self._env = empty_output(spec, num_envs or 1)
        self._buffers = flatten_like(spec.observation, self._env.observation)
        self._choose = Choice(policy, spec, num_envs or 1, env_id, greedy)
        self._begins = True

    def reset(self) -> None:
        """Forgets everything: the next observations are the first of their episodes."""
        self._begins = True  # The policy itself starts afresh there.

    def act(self, observation: Any, reward: Any = 0.0, done: Any = False) -> Any:
        """Chooses an action, or a batch of them.

        Args:
          observation: as the environment returns it; with `num_envs`, `[N, ...]` as vector environments do.
          reward: of the step that led to the observation, `[N]` in a batch; only networks with
            `--use_last_action_and_reward` have it as an input.
          done: whether the observation is the first of an episode, `[N]` in a batch; after `reset` it is.

        Returns:
          An action for `env.step`, or an array of actions `[N, ...]`.

        Raises:
          ValueError: the observation does not fit the observation space.
        """
        env, size, readers = self._env, self.num_envs, self._readers
        try:
            if size is None:
                arrays = [read([observation]) for read in readers]
            else:
                arrays = [read.of_batch(observation, size) for read in readers]
        except Fault as fault:
            raise ValueError(f"act() got {str(fault).removeprefix('returned ')}.") from None
        for buffer, array in zip(self._buffers, arrays, strict=True):
            buffer[:] = array
        env.reward[:], env.done[:] = reward, self._begins or done
        self._begins = False
        actions = self._decode(self._choose(env))
        return actions[0] if size is None else np.stack(actions)
