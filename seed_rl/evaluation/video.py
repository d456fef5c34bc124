"""Videos of episodes, with the score drawn in.

imageio writes them: .mp4 with the ffmpeg bundled with imageio-ffmpeg (H.264, which browsers can play), and
.gif with Pillow, which also draws the score. OpenCV, which is installed for Atari, cannot write GIF, and its
PyPI build cannot write H.264.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seed_rl.evaluation.rerun import Rerun, Scene

_STRIP_HEIGHT = 16
_PAUSE_SECS = 1.0


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
    writing = _format(path, episodes[0][1].scenes_per_second)
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


def montage(scenes: Iterable[Scene], columns: int = 4, rows: int = 2) -> np.ndarray:
    """Evenly spaced scenes of an episode as one picture: uint8 `[height, width, 3]`."""
    taken = _spread(scenes, columns * rows)
    pictures = [scene.picture for scene in taken]
    blank = np.zeros_like(pictures[0])
    pictures += [blank] * (columns * rows - len(pictures))
    return np.concatenate(
        [np.concatenate(pictures[i : i + columns], axis=1) for i in range(0, columns * rows, columns)]
    )


def _spread(scenes: Iterable[Scene], count: int) -> list[Scene]:
    """The first scene, the last one, and others between them, with few in memory at a time."""
    kept: list[Scene] = []
    stride, last = 1, None
    for index, scene in enumerate(scenes):
        last = scene
        if index % stride == 0:
            kept.append(scene)
        if len(kept) == 8 * count:
            kept, stride = kept[::2], 2 * stride
    if last is not None and kept[-1] is not last:
        kept.append(last)
    return [kept[i] for i in sorted(set(np.linspace(0, len(kept) - 1, count).round().astype(int).tolist()))]


def _pictures(title: str, episode: Rerun) -> Iterator[np.ndarray]:
    """All scenes with captions; the last one is held for a moment."""
    picture: Any = None
    for scene in episode:
        picture = caption(scene.picture, f"{title}: {scene.episode_return:g} at step {scene.agent_steps}")
        yield picture
    for _ in range(int(_PAUSE_SECS * episode.scenes_per_second)):
        yield picture


def _format(path: Path, scenes_per_second: float) -> dict[str, Any]:
    if path.suffix == ".gif":
        return {"mode": "I", "duration": 1000.0 / scenes_per_second, "loop": 0}
    return {
        "fps": scenes_per_second,
        "codec": "libx264",
        "macro_block_size": 1,
        "ffmpeg_log_level": "error",
        "output_params": ["-movflags", "+faststart"],
    }
