"""Videos of episodes, with the score drawn in. An episode's seed and actions determine it when played again.

imageio writes them: .mp4 with the ffmpeg bundled with imageio-ffmpeg (H.264, which browsers can play), and
.gif with Pillow, which also draws the score. OpenCV, which is installed for Atari, cannot write GIF, and its
PyPI build cannot write H.264.
"""

import contextlib
import copy
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Suite, ends_episode, raw_reward
from seed_rl.environments.failures import Deadline, FailureConfig, Fault, blame, close
from seed_rl.evaluation.agent import PlayedEpisode

ResultT = TypeVar("ResultT")

_DEFAULT_FRAMES_PER_SECOND = 30.0  # Of an environment that gives none, or an invalid number.
_STRIP_HEIGHT = 16
_PAUSE_SECS = 1.0  # After the last scene.


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
        if config.has_players:
            raise RerunError("Games of several players have no pictures; leave out --record.")
        try:
            with warnings.catch_warnings():  # Of render modes, for example.
                warnings.simplefilter("ignore")
                self._env = self._call("make", suite.make, config, episode.seed, render_mode="rgb_array")
                self._call("reset", self._env.reset, seed=episode.seed)
                self._picture()
        except BaseException:
            self.close()
            raise
        fps = 0.0
        with contextlib.suppress(Exception):
            fps = float(self._env.metadata["render_fps"])
        frames_per_second = fps if 1 <= fps <= 1000 else _DEFAULT_FRAMES_PER_SECOND
        self.scenes_per_second = frames_per_second / config.num_action_repeats

    def __len__(self) -> int:
        """The number of scenes."""
        return 1 + len(self._episode.actions)

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
        return self._call("render", self._rendered)

    def _rendered(self) -> np.ndarray:
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


def write_video(path: Path, episodes: Sequence[tuple[str, Rerun]]) -> None:
    """Writes episodes with their titles one after another to an .mp4 or .gif; a temporary name comes first.

    Raises:
      RerunError: an environment fails, or cannot be rendered.
      OSError, ValueError, RuntimeError: the file cannot be written.
    """
    import imageio.v2 as imageio

    # Without this, imageio-ffmpeg runs Python code between fork and exec. The threads of gRPC and TensorFlow
    # do not allow that: ffmpeg may hang, or end at once. With it, ffmpeg also gets the terminal's Ctrl-C.
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
    temporary = path.with_name(f"{path.stem}.tmp{path.suffix}")
    fps = episodes[0][1].scenes_per_second
    writing: dict[str, Any] = {"mode": "I", "duration": 1000.0 / fps, "loop": 0}
    if path.suffix != ".gif":
        parameters = ["-movflags", "+faststart"]
        writing = {"fps": fps, "codec": "libx264", "macro_block_size": 1, "output_params": parameters}
        writing["ffmpeg_log_level"] = "error"
    try:
        writer: Any
        with imageio.get_writer(temporary, **writing) as writer:
            for title, episode in episodes:
                for picture in _pictures(title, episode):
                    writer.append_data(picture)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def caption(picture: np.ndarray, text: str) -> np.ndarray:
    """Adds a strip with a line of text above a picture; pads the sides to even lengths, for video codecs."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = picture.shape[:2]
    canvas = Image.new("RGB", (width + width % 2, height + _STRIP_HEIGHT + height % 2))
    canvas.paste(Image.fromarray(picture), (0, _STRIP_HEIGHT))
    draw = ImageDraw.Draw(canvas)
    size = 11.0
    while size > 6 and draw.textlength(text, ImageFont.load_default(size)) > canvas.width - 4:
        size -= 0.5
    draw.text((2, _STRIP_HEIGHT // 2), text, fill="white", font=ImageFont.load_default(size), anchor="lm")
    return np.asarray(canvas)


def _pictures(title: str, episode: Rerun) -> Iterator[np.ndarray]:
    """All scenes with captions; the last one is held for a moment."""
    picture: Any = None
    for scene in episode:
        text = f"{title}: {scene.episode_return:g} at agent step {scene.agent_steps}"
        picture = caption(scene.picture, text)
        yield picture
    for _ in range(int(_PAUSE_SECS * episode.scenes_per_second)):
        yield picture
