"""Acting by a trained policy: on an environment's own observations, and through whole episodes."""

import copy
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig, Info, Suite, ends_episode, raw_reward
from seed_rl.environments.batched import BatchedEnvironment, empty_output
from seed_rl.environments.failures import EnvironmentFailedError, Fault
from seed_rl.environments.observations import observation_leaves
from seed_rl.environments.players import PlayersEnvironment
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.specs import Spaces, environment_spec
from seed_rl.evaluation.load import PlayConfig
from seed_rl.metrics.episodes import of_info
from seed_rl.ops import draws
from seed_rl.seeds import derived_seed
from seed_rl.types import ArraySpec, EnvOutput, Nest, flatten_like


class PlayedEpisode(NamedTuple):
    """An episode that was played to its end, or a game of several players.

    Attributes:
      number: determines the seed, together with that of the evaluation, and who plays which player. Numbers
        count from 0; those of void episodes are left out.
      seed: the seed of the environment's reset; with `actions`, it reproduces the episode.
      actions: one per agent step, in the environment's own format; in a game (player, action), in the format
        of the action spec.
      episode_return: sum of the raw rewards; in a game the mean over `players`.
      figures: those of the environment's own, of the first of `players`; not checked yet.
      returns: of each player of a game.
      players: those of the first side, which is the one that is evaluated.
    """

    number: int
    seed: int
    actions: list[Any]
    episode_return: float
    figures: Mapping[str, float] = {}
    returns: tuple[float, ...] = ()
    players: tuple[int, ...] = ()

    @property
    def agent_steps(self) -> int:
        """Its length, in agent steps of all players together."""
        return len(self.actions)


class Share:
    """The episodes that are assigned to one environment, and to those that replace it if it fails.

    The environment is a batch of its own. So its steps are complete if another environment fails for good,
    and the episodes that end with them are not lost.

    Attributes:
      batch: the environment.
      sides: those that act for its P players.
      left: the number of episodes that are still to be played.
      next: the number and the seed of each episode; if some are void, others follow the first ones.
      has_begun: whether an episode has, in this agent step.
      ended: the episode that has ended in this agent step, if its environment is not found to have failed.
    """

    def __init__(
        self, suite: Suite, config: EnvironmentConfig, sides: Sequence[Any], numbers: range, play: PlayConfig
    ):
        """Makes the environment for the episodes with these numbers."""
        self._of_first_game = self.sides = sides
        self.left = len(numbers)
        self.next = ((n, derived_seed(play.seed, n)) for n in itertools.count(numbers.start, numbers.step))
        self.has_begun = False
        self.ended: PlayedEpisode | None = None
        seeds = [derived_seed(play.seed, numbers.start)] * len(sides)
        given = config, seeds, play.failures, numbers.start * len(sides)
        if config.has_players:
            self.batch: BatchedEnvironment = PlayersEnvironment(suite, *given)
        else:
            recorded = dataclasses.replace(suite, make=lambda *args: _Recorded(suite.make(*args), self))
            self.batch = SingleEnvironments(recorded, *given)

    def begin(self) -> None:
        """Starts the first episode."""
        self.batch.reset()

    def step(self, actions: np.ndarray, acts: np.ndarray) -> Iterator[PlayedEpisode]:
        """Takes an agent step, `[P, ...]`, of players who act, `[P]`; yields the episode that ends with it.

        Raises:
          EnvironmentFailedError: the environment failed too often to play all of its episodes.
        """
        failure, self.has_begun = None, False
        try:
            _, (info,) = self.batch.step(actions)
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


class PolicySide:
    """Actions that a policy chooses in E slots; keeps their recurrent states and last actions."""

    def __init__(self, policy: Policy, action: ArraySpec, env_id: int, greedy: bool, seed: int):
        """A side whose draws follow from a seed; the policy gets `env_id` for all slots."""
        choose = policy.act_greedy if greedy else policy.act

        def act(seed: tf.Tensor, *inputs: Any) -> Acted:
            with draws.seeded(seed):
                return choose(*inputs)

        self._act = tf.function(act, autograph=False, reduce_retracing=True)
        self._policy, self._action, self._env_id = policy, action, env_id
        self._seed, self._calls = seed, 0
        self._memory: Nest = None  # Last actions and states, arrays `[E, ...]`.

    def __call__(self, env: EnvOutput, rows: np.ndarray) -> np.ndarray:
        """The actions of these slots, as `matches.Side` says; the memory of all others stays as it is."""
        slots = len(env.done)
        if self._memory is None or len(self._memory[0]) != slots:
            state = tf.nest.map_structure(lambda x: x.numpy(), self._policy.initial_state(slots))
            self._memory = self._action.zeros(slots), state
        picked = tf.nest.map_structure(lambda x: tf.constant(x[rows]), (env, self._memory))
        (own, (prev_action, state)), env_ids = picked, tf.fill([len(rows)], self._env_id)
        self._calls += 1
        output, state = self._act(tf.constant([self._seed, self._calls]), prev_action, own, state, env_ids)
        chosen = output.action, state
        for kept, new in zip(tf.nest.flatten(self._memory), tf.nest.flatten(chosen), strict=True):
            kept[rows] = new
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
        self._choose = PolicySide(policy, spec.action, env_id, greedy, seed=1)
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
        actions = self._decode(self._choose(env, np.arange(size or 1)))
        return actions[0] if size is None else np.stack(actions)
