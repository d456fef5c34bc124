"""Plays a recorded episode again to render it: its seed and actions determine what the environment does."""

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Suite, ends_episode, raw_reward
from seed_rl.environments.failures import Deadline, FailureConfig, Fault, blame, close
from seed_rl.evaluation.episodes import PlayedEpisode

ResultT = TypeVar("ResultT")

_DEFAULT_FRAMES_PER_SECOND = 30.0


class RerunError(ValueError):
    """An environment cannot be rendered, or failed meanwhile; the message is one sentence."""


class Scene(NamedTuple):
    """A moment of an episode.

    Attributes:
      picture: uint8 `[height, width, 3]`, of the same size in all scenes.
      episode_return: the return so far.
      agent_steps: the number of agent steps so far.
    """

    picture: np.ndarray
    episode_return: float
    agent_steps: int


class Rerun:
    """An episode that is played again, scene by scene.

    Making and playing it raises RerunError if the environment fails, or cannot be rendered.

    Attributes:
      scenes_per_second: the game's own speed.
      is_faithful: after the last scene, whether the return is the same as when the episode was recorded.
    """

    def __init__(
        self, suite: Suite, config: EnvironmentConfig, episode: PlayedEpisode, tolerance: FailureConfig
    ):
        """Makes the environment, and renders it once."""
        self._deadline = Deadline(tolerance.env_step_timeout_secs)
        self._episode = episode
        self._shape: tuple[int, ...] | None = None
        self.is_faithful = False
        self._env: Any = None
        try:
            with warnings.catch_warnings():  # Of render modes, for example.
                warnings.simplefilter("ignore")
                self._env = self._call("make", suite.make, config, episode.seed, render_mode="rgb_array")
                self._call("reset", self._env.reset, seed=episode.seed)
                self._picture()
        except BaseException:
            self.close()
            raise
        self.scenes_per_second = _frames_per_second(self._env) / config.num_action_repeats

    def __iter__(self) -> Iterator[Scene]:
        """Plays the episode, once, and yields its scenes, including that of the first observation."""
        try:
            yield Scene(self._picture(), 0.0, 0)
            total = 0.0
            for step, action in enumerate(self._episode.actions, start=1):
                reward, continues = self._call("step", self._step, action)
                total += reward
                yield Scene(self._picture(), total, step)
                if continues:
                    self._call("reset", self._env.reset)
            self.is_faithful = bool(np.isclose(total, self._episode.episode_return))
        finally:
            self.close()

    def close(self) -> None:
        """Closes the environment; a second call does nothing. What it raises matters to nothing any more."""
        env, self._env = self._env, None
        close(env, self._deadline)

    def _step(self, action: Any) -> tuple[float, bool]:
        """The raw reward of an agent step, and whether the episode goes on although it has ended."""
        _, reward, terminated, truncated, info = self._env.step(copy.copy(action))
        ended = bool(terminated or truncated)
        return raw_reward(reward, info), ended and not ends_episode(ended, info)

    def _picture(self) -> np.ndarray:
        return self._call("render", self._render)

    def _render(self) -> np.ndarray:
        try:
            rendered = self._env.render()
        except NotImplementedError:  # Gymnasium's own, which has no information.
            raise Fault("is not implemented") from None
        if rendered is None:
            raise Fault("returned None")
        picture = np.array(rendered)  # Environments draw the next one over it.
        what = f"returned {picture.dtype}{list(picture.shape)}"
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3 or not picture.size:
            raise Fault(f"{what}, not uint8[height, width, 3]")
        self._shape = self._shape or picture.shape
        if picture.shape != self._shape:
            raise Fault(f"{what} after pictures of {list(self._shape)}")
        return picture

    def _call(self, method: str, function: Callable[..., ResultT], *args: Any, **kwargs: Any) -> ResultT:
        """Result of a function that calls a method of the environment."""
        try:
            with self._deadline:
                return function(*args, **kwargs)
        except BaseException as error:
            raise RerunError(
                f"The environment cannot be rendered as pictures ({blame(method, error)})."
            ) from error


def retried(make: Callable[[], ResultT], tolerance: FailureConfig) -> ResultT:
    """Result of `make`, which plays episodes again; another attempt is made if an environment fails.

    Raises:
      RerunError: it failed too often, or twice in the same way, and so not by chance.
    """
    failures, last = 0, ""
    while True:
        try:
            return make()
        except RerunError as error:
            failures += 1
            if failures > tolerance.max_environment_failures or str(error) == last:
                raise
            last = str(error)


def _frames_per_second(env: Any) -> float:
    """The game's own speed; the default if the environment gives none, or an invalid one."""
    try:
        found = float(env.metadata["render_fps"])
    except Exception:
        return _DEFAULT_FRAMES_PER_SECOND
    return found if 1 <= found <= 1000 else _DEFAULT_FRAMES_PER_SECOND
