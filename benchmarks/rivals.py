"""Pong beside CleanRL's PPO and Sample Factory's APPO on the same machine: `tools/install_rivals.sh` first.

    python -m benchmarks.rivals --rounds=3              # speed
    python -m benchmarks.rivals --rounds=0 --minutes=10 # what the others have learned by then

Speed: in every round each of the three trains for `--seconds`, one after the other, with a Nature-CNN on
frames of 84x84x4 and one pass over each sample; ours is the run of benchmarks.end_to_end. Goal: 1.5 times the
faster of the others in every round. Learning: the others train with their own settings for Atari, which are
those of PPO's paper. Ours is in docs/scores.md, with the return after so many minutes in its record.
"""

import dataclasses
import re
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.end_to_end import RUN_FLAGS, VARIANTS
from benchmarks.harness import ROOT, print_result, print_table, running, steady_run, wait_until
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.launch.child import Child
from seed_rl.options import Options, option

GOAL = 1.5

_TIME = "%Y-%m-%d %H:%M:%S,%f"
_FRAMES = re.compile(r"\[([-0-9]+ [:,0-9]+)\].*Total num frames: (\d+)")
_LATEST = 100  # Games in a mean return.


class Rival(NamedTuple):
    """Another system.

    Attributes:
      name: what the tables call it; in small letters with an underscore, its virtual environment.
      module: the benchmark that it runs through.
      arguments: of every run; `{scratch}` is a directory.
      fast: of the runs whose speed is measured.
      own: of the runs that learn; what is not named is the system's own choice.
      game: matches the return of a game in its log.
      window: how many of these returns a mean is of.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    fast: tuple[str, ...]
    own: tuple[str, ...]
    game: re.Pattern[str]
    window: int

    def child(self, directory: Path, arguments: tuple[str, ...], scratch: Path) -> Child:
        """A process that trains it; its progress is in its log."""
        python = directory / self.name.lower().replace(" ", "_") / "bin" / "python"
        if not python.exists():
            raise UsageError(
                f"{self.name} is not in {directory}; run tools/install_rivals.sh {directory} first."
            )
        filled = [argument.format(scratch=scratch) for argument in (*self.arguments, *arguments)]
        command = [str(python), str(ROOT / "benchmarks" / f"{self.module}.py"), *filled]
        return Child(self.name, command, scratch / "log", {"PYTHONUNBUFFERED": "1"})


RIVALS = (
    Rival(
        "CleanRL",
        "rival_cleanrl",
        (),
        ("--num-envs=16", "--num-steps=32", "--update-epochs=1"),
        (),
        re.compile(r"episodic_return=(-?[0-9.]+)"),
        _LATEST,
    ),
    Rival(
        "Sample Factory",
        "rival_sample_factory",
        ("--env=atari_pong", "--device=cpu", "--train_dir={scratch}", "--experiment=pong", "--num_workers=2"),
        ("--num_envs_per_worker=8", "--num_epochs=1", "--async_rl=True"),
        ("--num_envs_per_worker=4",),  # As many frames in a rollout as its settings for Atari train on.
        re.compile(r"Avg episode reward: \[\(0, '(-?[0-9.]+)'\)\]"),
        1,  # It prints means of its own.
    ),
)


@dataclasses.dataclass(frozen=True)
class RivalsConfig(Options):
    """Settings of the comparison."""

    rounds: int = option(3, "Rounds in which the speed of all three is measured in turn.", at_least=0)
    seconds: float = option(40.0, "Seconds of each run whose speed is measured.", above=0)
    warm_up_secs: float = option(15.0, "Seconds of each such run before that.", at_least=0)
    minutes: float = option(
        0.0, "Minutes for which each of the others then learns; 0: not at all.", at_least=0
    )
    directory: str = option(".rivals", "Where tools/install_rivals.sh has put them.")


def main(argv: list[str]) -> int:
    """Measures, and prints the tables."""
    config = parse_options(argv, __doc__ or "", RivalsConfig)[0]
    rounds = [_round(config) for _ in range(config.rounds)]
    names = ["ours", *(rival.name for rival in RIVALS)]
    if rounds:
        rows = [[i + 1, *(speeds[name] for name in names), _ratio(speeds)] for i, speeds in enumerate(rounds)]
        print_table("Pong, frames/s while training", ["round", *names, "ours / faster one"], rows)
    learned = {}
    if config.minutes:
        learned = {rival.name: _learn(rival, config) for rival in RIVALS}
        rows = [[name, found["frames"], found["mean_return"]] for name, found in learned.items()]
        print_table(f"Pong after {config.minutes:g} minutes", ["system", "frames", "mean return"], rows)
    ratios = [_ratio(speeds) for speeds in rounds]
    print_result(
        {"benchmark": "rivals", "goal": GOAL, "ratios": ratios, "rounds": rounds, "learned": learned}
    )
    return 0


def _ratio(speeds: dict[str, float]) -> float:
    return speeds["ours"] / max(speeds[rival.name] for rival in RIVALS)


def _round(config: RivalsConfig) -> dict[str, float]:
    """Frames/s of each system."""
    run = steady_run([*RUN_FLAGS, *VARIANTS["feed_forward"]], config.warm_up_secs, config.seconds)
    speeds = {"ours": run.frames_per_second}
    for rival in RIVALS:
        log = _run(rival, config, rival.fast, config.warm_up_secs + config.seconds)
        speeds[rival.name] = frames_per_second(log, config.seconds)
        print(f"{rival.name}: {speeds[rival.name]:,.0f} frames/s", file=sys.stderr, flush=True)
    return speeds


def _learn(rival: Rival, config: RivalsConfig) -> dict[str, Any]:
    log = _run(rival, config, rival.own, 60 * config.minutes)
    returns = [float(value) for value in rival.game.findall(log)][-rival.window :]
    return {"frames": _counts(log)[-1][1], "mean_return": float(np.mean(returns)) if returns else None}


def _run(rival: Rival, config: RivalsConfig, arguments: tuple[str, ...], seconds: float) -> str:
    """Trains for so many seconds after the first frames that the log counts; returns the log."""
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as scratch:
        child = rival.child(Path(config.directory).resolve(), arguments, Path(scratch))
        assert child.log is not None
        log = child.log
        with running([child]):
            wait_until(lambda: bool(_counts(log.read_text(errors="replace"))), [child], 120, "first frames")
            end = time.monotonic() + seconds
            wait_until(lambda: time.monotonic() > end, [child], seconds + 60, "end of the run")
        return log.read_text(errors="replace")


def _counts(log: str) -> list[tuple[float, int]]:
    """When (in seconds) a log has counted frames, and how many."""
    return [(datetime.strptime(at, _TIME).timestamp(), int(frames)) for at, frames in _FRAMES.findall(log)]


def frames_per_second(log: str, seconds: float) -> float:
    """The mean over the last seconds of a log.

    Raises:
      RuntimeError: it has not counted frames twice in that time.
    """
    counts = _counts(log)
    latest = [count for count in counts if count[0] >= counts[-1][0] - seconds]
    if len(latest) < 2:
        raise RuntimeError(f"The log has no frames in {seconds:g} s: {log[-1000:]}")
    (begin, first), (end, last) = latest[0], latest[-1]
    return (last - first) / (end - begin)


if __name__ == "__main__":
    run_main(main, sys.argv)
