"""Plays a recorded episode again to render it: its seed and actions determine what the environment does."""

from collections.abc import Iterator
from typing import NamedTuple

import gymnasium
import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.evaluation.player import PlayedEpisode

_DEFAULT_FRAMES_PER_SECOND = 30.0


class Scene(NamedTuple):
    """A moment of an episode.

    Attributes:
      picture: uint8 `[height, width, 3]`.
      episode_return: the return so far.
      agent_steps: the number of agent steps so far.
    """

    picture: np.ndarray
    episode_return: float
    agent_steps: int


class Rerun:
    """An episode that is played again, scene by scene.

    Attributes:
      scenes_per_second: the game's own speed.
      is_faithful: after the last scene, whether the return is the same as when the episode was recorded.
    """

    def __init__(self, suite: Suite, config: EnvironmentConfig, episode: PlayedEpisode):
        """Makes the environment.

        Raises:
          ValueError: the environment cannot be rendered; the message is one sentence.
        """
        self._episode = episode
        self._env: gymnasium.Env = suite.make(config, episode.seed, render_mode="rgb_array")
        frames_per_second = self._env.metadata.get("render_fps") or _DEFAULT_FRAMES_PER_SECOND
        self.scenes_per_second = frames_per_second / config.num_action_repeats
        self.is_faithful = False
        try:
            self._env.reset(seed=episode.seed)
            self._picture()
        except (NotImplementedError, AttributeError, gymnasium.error.Error) as error:
            self._env.close()
            raise ValueError(f"The environment cannot be rendered as pictures ({error}).") from error

    def __iter__(self) -> Iterator[Scene]:
        """Plays the episode, once, and yields its scenes, including that of the first observation."""
        try:
            yield Scene(self._picture(), 0.0, 0)
            total = 0.0
            for step, action in enumerate(self._episode.actions, start=1):
                _, reward, terminated, truncated, info = self._env.step(action)
                total += float(info.get(Info.RAW_REWARD, reward))
                yield Scene(self._picture(), total, step)
                if (terminated or truncated) and info.get(Info.EPISODE_CONTINUES, False):
                    self._env.reset()
            self.is_faithful = bool(np.isclose(total, self._episode.episode_return))
        finally:
            self._env.close()

    def _picture(self) -> np.ndarray:
        picture = np.asarray(self._env.render())
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
            raise NotImplementedError(f"render() returns {picture.dtype}{list(picture.shape)}")
        return picture
