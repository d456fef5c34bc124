"""Shows a run's progress: one line that is rewritten on a terminal, plain lines elsewhere.

No TensorFlow is imported here, because the first lines come before it is.
"""

import collections
import datetime
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from seed_rl.messages import discard
from seed_rl.metrics.curves import can_draw, drawn_curve
from seed_rl.metrics.episodes import OWN
from seed_rl.metrics.idle_time import stage_waits
from seed_rl.metrics.outputs import Guard

_MOST_OWN = 3  # Metrics of the environment's own; the line is to stay readable.

# Seconds between two versions of the line on a terminal.
_REDRAW_SECS = 0.5
# Elsewhere, a stage is printed again when no line has come for so many seconds, and for this part of the time
# since its start: none of the first two minutes has five seconds of silence, and a wait of hours few lines.
_REMINDER_SECS, _REMINDERS = 5.0 - _REDRAW_SECS, 30
# On a terminal, frames/s is the mean over this many redraws.
_SPEED_WINDOW = 20
_STAGE_LINE = re.compile(r" \.\.\.( \d+ s)?$")
_LEAST_CURVE, _MOST_CURVE = 6, 40


class ProgressDisplay:
    """Shows the stages of the start, then the progress of training, on standard output.

    On a terminal, a line is rewritten twice a second: the mean return and its curve over the whole run, the
    share of the run that is done, environment frames/s, the time left, the busiest stage, and the time to the
    next checkpoint. Elsewhere there is a line for each period and for each stage, and another one every five
    seconds while a stage takes that long. If standard output fails (a closed pipe, a full disk), it warns
    once on standard error and shows nothing more. Thread-safe.
    """

    def __init__(
        self, total_frames: int, earlier: Iterable[Mapping[str, Any]] = (), actor_log: Path | None = None
    ):
        """Starts with the metrics of the periods of the run's earlier sessions.

        `actor_log` is the first actor's output, which is named while actors are waited for if it exists.
        """
        self._total = total_frames
        self._guard = Guard()
        # Whether a line on standard output can be rewritten.
        self._is_terminal = (
            sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        )
        self._lock = threading.Lock()
        self._points: list[tuple[int, float]] = []  # Environment frames and mean returns.
        for period in earlier:
            self._add(period)
        self._actor_log = actor_log
        self._stage: tuple[str, float, Callable[[], str] | None] | None = None
        self._period: Mapping[str, Any] = {}
        self._now: Callable[[], Mapping[str, Any]] = dict
        self._written = 0.0  # When the last plain line was, by `time.monotonic`.
        self._speeds: collections.deque[tuple[float, int]] = collections.deque(maxlen=_SPEED_WINDOW)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, what: str, details: Callable[[], str] | None = None) -> None:
        """Shows what the start is doing, such as "importing TensorFlow", until the next stage or period.

        `details`, such as the number of actors, are part of it after a few seconds.
        """
        with self._lock:
            what = what[:1].upper() + what[1:]
            if self._stage is not None and self._stage[0] == what:
                return
            self._stage = what, time.monotonic(), details
            self._try(self._draw if self._is_terminal else self._write, f"{what} ...")
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_drawing, name="progress", daemon=True)
            self._thread.start()

    def follow(self, now: Callable[[], Mapping[str, Any]]) -> None:
        """Ends the stages. From now on a terminal shows these metrics between periods, too.

        They are `env_frames`, the mean returns if there are any, and `secs_to_checkpoint`.
        """
        with self._lock:
            self._stage, self._now = None, now

    def show(self, metrics: Mapping[str, Any]) -> None:
        """Shows the metrics of a period."""
        with self._lock:
            self._period = metrics
            self._add(metrics)
            if not self._is_terminal:
                if self._stage is None or metrics["frames_per_second"]:
                    self._try(self._write, self._sentence({**self._now(), **metrics}))
            elif self._stage is None:
                self._try(self._draw_progress, {**self._now(), **metrics})

    def say(self, line: str) -> None:
        """Prints a line above the one that is rewritten."""
        with self._lock:
            self._try(self._write, line)

    def finish(self, metrics: Mapping[str, Any], ended: str) -> None:
        """Prints the last line: how the run ended, frames, time, frames/s and mean return."""
        self.close()
        self._add(metrics)
        frames, seconds = metrics["env_frames"], metrics["seconds"]
        took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"
        speed = f"{frames / max(seconds, 1e-9):,.0f} frames/s"
        if self._is_terminal and (drawn := self._drawn(_MOST_CURVE)):
            self._try(self._write, f"Mean return over the run: {drawn}")
        self._try(self._write, f"{ended}: {frames:,} frames in {took}, {speed}, {_return(metrics)}")

    def close(self) -> None:
        """Stops rewriting and clears the line; a second call does nothing."""
        self._stopping.set()
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None and self._is_terminal:
                self._try(self._draw, "")
        if thread is not None:
            thread.join()

    def _keep_drawing(self) -> None:
        while not self._stopping.wait(_REDRAW_SECS):
            with self._lock:
                if not self._stopping.is_set():
                    self._redraw()

    def _redraw(self) -> None:
        if self._stage is not None:
            what, since, details = self._stage
            now = time.monotonic()
            more = details() if details is not None and now - since >= _REMINDER_SECS else ""
            if more and self._actor_log is not None and self._actor_log.exists():
                more += f"; the first one's log is {self._actor_log}"
            words = f"{what}{more and ': '}{more} ... {now - since:.0f} s"
            if self._is_terminal:
                self._try(self._draw, words)
            elif now - self._written >= max(_REMINDER_SECS, (now - since) / _REMINDERS):
                self._try(self._write, words)
        elif self._is_terminal and (metrics := self._now()):
            self._try(self._draw_progress, {**self._period, **metrics})

    def _add(self, metrics: Mapping[str, Any]) -> None:
        """Adds a point to the curve, in the place of those that a session that was killed had after it."""
        if "mean_return" in metrics:
            while self._points and self._points[-1][0] >= metrics["env_frames"]:
                self._points.pop()
            self._points.append((metrics["env_frames"], metrics["mean_return"]))

    def _sentence(self, metrics: Mapping[str, Any]) -> str:
        """A period in a plain line."""
        frames, speed = metrics["env_frames"], metrics["frames_per_second"]
        left = self._seconds_left(frames, speed)
        parts = (
            f"{frames:,} of {self._total:,} frames ({100 * frames / self._total:.1f}%)",
            f"{speed:,.0f} frames/s",
            f"{metrics['updates']:,} updates",
            _return(metrics),
            "unknown time left" if left == math.inf else f"{_clock(left)} left",
            _busiest(metrics),
            _checkpoint(metrics, left),
        )
        return ", ".join(filter(None, parts))

    def _draw_progress(self, metrics: Mapping[str, Any]) -> None:
        """The line on a terminal: what fits, the most important first, and the curve in the rest."""
        frames = metrics["env_frames"]
        self._speeds.append((time.monotonic(), frames))
        (then, before), (now, _) = self._speeds[0], self._speeds[-1]
        speed = (frames - before) / (now - then) if now > then else metrics.get("frames_per_second", 0.0)
        head = f"return {metrics['mean_return']:.2f}" if "mean_return" in metrics else "no episode yet"
        evaluated = metrics.get("mean_evaluation_return")
        left = self._seconds_left(frames, speed)
        parts = [
            f"{min(1.0, frames / self._total):.0%} of {_short(self._total)}",
            f"{_short(speed)} frames/s" if speed else "",
            f"{_clock(left)} left" if speed else "",
            _busiest(metrics),
            "" if evaluated is None else f"in evaluation {evaluated:.2f}",
            _checkpoint(metrics, left),
            *(
                f"{stage} {'wait' if stage == 'actors' else 'waits'} {share:.0%}"
                for stage, share in stage_waits(metrics).items()
            ),
        ]
        room = shutil.get_terminal_size().columns - 1 - len(head)
        shown, needs_curve = "", _LEAST_CURVE + 1
        for part in filter(None, parts):
            if len(shown) + 2 + len(part) + needs_curve <= room:
                shown += f"  {part}"
        drawn = self._drawn(min(_MOST_CURVE, room - len(shown) - 1))
        self._draw(f"{head} {drawn}{shown}" if drawn else f"{head}{shown}")

    def _drawn(self, width: int) -> str:
        return drawn_curve(self._points, width) if can_draw(sys.stdout) else ""

    def _seconds_left(self, frames: int, speed: float) -> float:
        """To the end of the run; infinite without speed."""
        return max(0, self._total - frames) / speed if speed > 0 else math.inf

    def _draw(self, line: str) -> None:
        """Rewrites the line on a terminal, which stays as narrow as the terminal is."""
        print(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)

    def _write(self, line: str) -> None:
        """Prints a line; on a terminal the line that is rewritten makes room for it."""
        self._written = time.monotonic()
        print(f"\r\x1b[K{line}" if self._is_terminal else line, flush=True)

    def _try(self, function: Callable[..., None], *args: Any) -> None:
        def call() -> None:
            try:
                function(*args)
            except OSError:
                discard(sys.stdout)
                raise

        self._guard.call("Standard output", call)


def is_stage(line: str) -> bool:
    """Whether a plain line of a learner's output only reports a stage of its start."""
    return bool(_STAGE_LINE.search(line))


def _clock(seconds: float) -> str:
    """As 4:05, or 1:04:05 from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else str(datetime.timedelta(seconds=int(seconds)))


def _checkpoint(metrics: Mapping[str, Any], seconds_left: float) -> str:
    """The time to the next checkpoint, if the run does not end before that."""
    seconds = metrics.get("secs_to_checkpoint", math.inf)
    return f"checkpoint in {_clock(max(0.0, seconds))}" if seconds < seconds_left else ""


def _short(number: float) -> str:
    """A number in three digits: 950, 12.2k, 400k, 1.5M, 1B."""
    unit, size = next(((u, n) for u, n in (("B", 1e9), ("M", 1e6), ("k", 1e3)) if number >= n), ("", 1.0))
    scaled = number / size
    return f"{scaled:.3g}{unit}" if unit and scaled < 1000 else f"{scaled:,.0f}{unit}"


def _busiest(metrics: Mapping[str, Any]) -> str:
    """The stage that waits least, and the share of time for which it works; empty if that is unknown."""
    waits = stage_waits(metrics)
    if not waits:
        return ""
    stage = min(waits, key=waits.__getitem__)
    return f"{stage} {1 - waits[stage]:.0%} busy"


def _return(metrics: Mapping[str, Any]) -> str:
    if "mean_return" not in metrics:
        return "no episode finished yet"
    words = f"mean return {metrics['mean_return']:.2f}"
    if "mean_evaluation_return" in metrics:
        words += f", in evaluation {metrics['mean_evaluation_return']:.2f}"
    own = [name for name in metrics if name.startswith(OWN)]
    return words + "".join(f", {name.removeprefix(OWN)} {metrics[name]:.3g}" for name in own[:_MOST_OWN])
