"""A curve in block characters."""

from collections.abc import Iterable
from statistics import fmean
from typing import TextIO

_BLOCKS = "▁▂▃▄▅▆▇█"
# More points than this are replaced by half as many.
_MOST_POINTS = 1000


class Curve:
    """The mean return over the environment frames of a run, which may have any number of points."""

    def __init__(self, points: Iterable[tuple[int, float]] = ()):
        """Starts with points (environment frames, mean return)."""
        self._points: list[tuple[int, float]] = []
        for frames, value in points:
            self.add(frames, value)

    def add(self, frames: int, value: float) -> None:
        """Adds a point, in the place of those that are not before it (of a session that was killed).

        Too many points are replaced by means over equal parts of the frames.
        """
        while self._points and self._points[-1][0] >= frames:
            self._points.pop()
        self._points.append((frames, value))
        if len(self._points) > _MOST_POINTS:
            parts = [part for part in self._parts(_MOST_POINTS // 2) if part]
            self._points = [(part[0][0], fmean(value for _, value in part)) for part in parts]

    def drawn(self, width: int) -> str:
        """The curve in at most `width` characters, from the first point to the last.

        Each character shows the mean over its part of the frames; one without points repeats the one before.
        Empty with fewer than two points.
        """
        if len(self._points) < 2 or width < 1:
            return ""
        means: list[float] = []
        for part in self._parts(min(width, len(self._points))):
            means.append(fmean(value for _, value in part) if part else means[-1])
        low, high = min(means), max(means)
        top = len(_BLOCKS) - 1
        heights = (round(top * (mean - low) / (high - low)) if high > low else 0 for mean in means)
        return "".join(_BLOCKS[height] for height in heights)

    def _parts(self, count: int) -> list[list[tuple[int, float]]]:
        """The points of each of `count` equal parts of the frames; at least those of the first part."""
        first, last = self._points[0][0], self._points[-1][0]
        parts: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for frames, value in self._points:
            parts[min(count - 1, count * (frames - first) // max(1, last - first))].append((frames, value))
        return parts


def can_draw(stream: TextIO) -> bool:
    """Whether a stream's encoding has block characters."""
    try:
        _BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
