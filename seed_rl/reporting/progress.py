"""Shows a run's progress: a live bar on a terminal, plain lines in a file."""

import datetime
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tqdm

from seed_rl.messages import discard
from seed_rl.own_figures import OWN
from seed_rl.reporting.guard import Guard

_MOST_OWN = 3  # Figures of the environment's own; the line is to stay readable.

ResultT = TypeVar("ResultT")


class ProgressDisplay:
    """Shows environment frames, frames/s, time left and the mean return on standard output.

    If that fails (a closed pipe, a full disk), it warns once on standard error and shows nothing more.
    """

    def __init__(self, total_frames: int, initial_frames: int):
        """Starts the display, at more than 0 frames if the run is resumed."""
        self._total = total_frames
        self._guard = Guard()
        self._bar = self._try(_bar, total_frames, initial_frames)

    def show(self, figures: Mapping[str, Any]) -> None:
        """Shows the figures of a period."""
        self._try(self._show, figures)

    def _show(self, figures: Mapping[str, Any]) -> None:
        words = _words(figures)
        if self._bar is not None:
            self._bar.update(figures["env_frames"] - self._bar.n)
            self._bar.set_postfix_str(words)
            return
        frames, speed = figures["env_frames"], figures["frames_per_second"]
        left = "unknown"
        if speed:
            left = str(datetime.timedelta(seconds=int(max(0, self._total - frames) / speed)))
        share = 100 * frames / self._total
        print(
            f"{frames:,} of {self._total:,} frames ({share:.1f}%), {speed:,.0f} frames/s, {words}, "
            f"{left} left",
            flush=True,
        )

    def say(self, line: str) -> None:
        """Prints a line without breaking the bar."""
        self._try(functools.partial(print, flush=True) if self._bar is None else self._bar.write, line)

    def finish(self, figures: Mapping[str, Any], ended: str) -> None:
        """Prints the last line: how the run ended, frames, minutes, frames/s and mean return."""
        self._try(self._finish, figures, ended)

    def _finish(self, figures: Mapping[str, Any], ended: str) -> None:
        if self._bar is not None:
            self._bar.close()
        frames, seconds = figures["env_frames"], figures["seconds"]
        print(
            f"{ended}: {frames:,} frames in {seconds / 60:.1f} minutes, {frames / max(seconds, 1e-9):,.0f} "
            f"frames/s, {_return(figures)}",
            flush=True,
        )

    def _try(self, function: Callable[..., ResultT], *args: Any) -> ResultT | None:
        return self._guard.call("Standard output", _or_discard, function, *args)


def _or_discard(function: Callable[..., ResultT], *args: Any) -> ResultT:
    try:
        return function(*args)
    except OSError:
        discard(sys.stdout)
        raise


def _bar(total_frames: int, initial_frames: int) -> tqdm.tqdm | None:
    """A bar on a terminal; None elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return tqdm.tqdm(
        total=total_frames,
        initial=initial_frames,
        unit=" frames",
        unit_scale=True,
        dynamic_ncols=True,
        smoothing=0.1,
        file=sys.stdout,
    )


def _words(figures: Mapping[str, Any]) -> str:
    return f"{figures['updates']:,} updates, {_return(figures)}"


def _return(figures: Mapping[str, Any]) -> str:
    if "mean_return" not in figures:
        return "no episode finished yet"
    words = f"mean return {figures['mean_return']:.2f}"
    if "mean_evaluation_return" in figures:
        words += f", in evaluation {figures['mean_evaluation_return']:.2f}"
    own = [name for name in figures if name.startswith(OWN)]
    return words + "".join(f", {name.removeprefix(OWN)} {figures[name]:.3g}" for name in own[:_MOST_OWN])
