"""Returns and lengths of finished episodes, for reporting."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from seed_rl.environments.base import Info, ends_episode, raw_reward
from seed_rl.types import EnvOutput


class Episode(NamedTuple):
    """A finished episode.

    Attributes:
      env: index of the environment within its batch.
      episode_return: sum of the raw rewards.
      agent_steps: its length, in agent steps.
    """

    env: int
    episode_return: float
    agent_steps: int


class EpisodeStatistics:
    """Adds up rewards of E environments until their episodes end.

    Honours the entries of `info` that `environments.base.Info` lists. An episode that terminates
    counts at its `done` step, one that a time limit cuts short at its `truncated` step.
    Create a new instance after `BatchedEnvironment.reset`.
    """

    def __init__(self, num_envs: int):
        """Starts from zero for each of `num_envs` environments."""
        self._returns = [0.0] * num_envs
        self._agent_steps = [0] * num_envs
        self._was_truncated = [False] * num_envs

    def update(self, env: EnvOutput, infos: Sequence[dict[Any, Any]]) -> list[Episode]:
        """Adds the result of one `BatchedEnvironment.step` (not that of `reset`).

        Args:
          env: arrays `[E, ...]`.
          infos: the E info dicts of the same step.

        Returns:
          The episodes that ended at this step, in environment order.
        """
        episodes = []
        rewards, dones, truncateds = env.reward.tolist(), env.done.tolist(), env.truncated.tolist()
        for index, info in enumerate(infos):
            if self._was_truncated[index]:  # this step is the reset: no action was executed
                self._was_truncated[index] = False
                continue
            self._returns[index] += raw_reward(rewards[index], info)
            self._agent_steps[index] += 1
            self._was_truncated[index] = truncateds[index]
            if ends_episode(dones[index] or truncateds[index], info):
                if not info.get(Info.EPISODE_IS_VOID, False):
                    episodes.append(Episode(index, self._returns[index], self._agent_steps[index]))
                self._returns[index], self._agent_steps[index] = 0.0, 0
        return episodes
