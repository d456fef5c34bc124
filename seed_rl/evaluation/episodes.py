"""The episodes of an evaluation, each with a seed of its own."""

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Info, Suite, ends_episode, raw_reward
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.metrics.episodes import of_info
from seed_rl.seeds import derived_seed


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
