"""A curve in block characters."""

from collections.abc import Iterable
from typing import TextIO

import numpy as np

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_POINTS = 1000


class TextCurve:
    """The mean return over the environment frames of a run, which may have any number of points."""

    def __init__(self, points: Iterable[tuple[int, float]] = ()):
        """Starts with points (environment frames, mean return)."""
        self._points: list[tuple[float, float]] = []
        for frames, value in points:
            self.add(frames, value)

    def add(self, frames: int, value: float) -> None:
        """Adds a point, in the place of those that are not before it (of a session that was killed).

        Too many points are replaced by half as many, evenly over the frames.
        """
        while self._points and self._points[-1][0] >= frames:
            self._points.pop()
        self._points.append((frames, value))
        if len(self._points) > _MOST_POINTS:
            self._points = self._resampled(_MOST_POINTS // 2)

    def drawn(self, width: int) -> str:
        """The curve in at most `width` characters, from the first point to the last, evenly over the frames.

        Empty with fewer than two points.
        """
        if len(self._points) < 2 or width < 1:
            return ""
        shown = np.array([value for _, value in self._resampled(min(width, len(self._points)))])
        shares = (shown - shown.min()) / (np.ptp(shown) or 1.0)
        return "".join(_BLOCKS[round(share * (len(_BLOCKS) - 1))] for share in shares)

    def _resampled(self, count: int) -> list[tuple[float, float]]:
        """So many points, evenly over the frames from the first one to the last."""
        frames, values = zip(*self._points, strict=True)
        at = np.linspace(frames[0], frames[-1], count)
        return list(zip(at.tolist(), np.interp(at, frames, values).tolist(), strict=True))


def can_draw(stream: TextIO) -> bool:
    """Whether a stream's encoding has block characters."""
    try:
        _BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
