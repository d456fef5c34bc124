"""Pong beside CleanRL's PPO and Sample Factory's APPO on the same machine: `tools/install_rivals.sh` first.

In every round each of the three trains for `--seconds`, one after the other, with a Nature-CNN on frames of
84x84x4 and one pass over each sample; ours is the run of benchmarks.end_to_end, in float32, as the others
compute, and with `--precision=auto`. Goal: with auto, 2 times the faster of the others in every round.
"""

import dataclasses
import re
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.end_to_end import RUN_FLAGS, VARIANTS
from benchmarks.harness import ROOT, print_result, print_table, running, steady_run, wait_until
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.options import Options, option

GOAL = 2.0
OURS = {"ours": "float32", "ours, auto": "auto"}  # And the precision.

_TIME = "%Y-%m-%d %H:%M:%S,%f"
_FRAMES = re.compile(r"\[([-0-9]+ [:,0-9]+)\].*Total num frames: (\d+)")


class Rival(NamedTuple):
    """Another system.

    Attributes:
      name: what the tables call it; in small letters with an underscore, its virtual environment.
      module: the program here that runs it.
      arguments: of a run; `{scratch}` is a directory.
    """

    name: str
    module: str
    arguments: tuple[str, ...]

    def child(self, directory: Path, scratch: Path) -> Child:
        """A process that trains it; its progress is in its log."""
        python = directory / self.name.lower().replace(" ", "_") / "bin" / "python"
        if not python.exists():
            raise UsageError(
                f"{self.name} is not in {directory}; run tools/install_rivals.sh {directory} first."
            )
        filled = [argument.format(scratch=scratch) for argument in self.arguments]
        command = [str(python), str(ROOT / "benchmarks" / f"{self.module}.py"), *filled]
        return Child(self.name, command, scratch / "log", {"PYTHONUNBUFFERED": "1"})


RIVALS = (
    Rival("CleanRL", "rival_cleanrl", ("--num-envs=16", "--num-steps=32", "--update-epochs=1")),
    Rival(
        "Sample Factory",
        "rival_sample_factory",
        (
            *("--env=atari_pong", "--device=cpu", "--train_dir={scratch}", "--experiment=pong"),
            *("--num_workers=2", "--num_envs_per_worker=8", "--num_epochs=1", "--async_rl=True"),
        ),
    ),
)


@dataclasses.dataclass(frozen=True)
class RivalsConfig(Options):
    """Settings of the comparison."""

    rounds: int = option(3, "Rounds in which the speed of all three is measured in turn.", at_least=1)
    seconds: float = option(40.0, "Seconds of each run that are measured.", above=0)
    warm_up_secs: float = option(15.0, "Seconds of each run before that.", at_least=0)
    directory: str = option(".rivals", "Where tools/install_rivals.sh has put them.")


def main(argv: list[str]) -> int:
    """Measures, and prints the table."""
    config = parse_options(argv, __doc__ or "", RivalsConfig)[0]
    for rival in RIVALS:
        rival.child(Path(config.directory).resolve(), Path())  # One that is missing ends the benchmark here.
    rounds = [_round(config) for _ in range(config.rounds)]
    rivals = [rival.name for rival in RIVALS]
    ratios = [
        {name: speeds[name] / max(speeds[rival] for rival in rivals) for name in OURS} for speeds in rounds
    ]
    rows = [
        [i + 1, *(speeds[name] for name in (*OURS, *rivals)), *ratios[i].values()]
        for i, speeds in enumerate(rounds)
    ]
    columns = ["round", *OURS, *rivals, *(f"{name} / faster one" for name in OURS)]
    print_table("Pong, frames/s while training", columns, rows)
    print_result({"benchmark": "rivals", "goal": GOAL, "ratios": ratios, "rounds": rounds})
    return 0


def _round(config: RivalsConfig) -> dict[str, float]:
    """Frames/s of each system."""
    speeds = {}
    for name, precision in OURS.items():
        flags = [*RUN_FLAGS, *VARIANTS["feed_forward"], f"--precision={precision}"]
        speeds[name] = steady_run(flags, config.warm_up_secs, config.seconds).frames_per_second
    for rival in RIVALS:
        speeds[rival.name] = frames_per_second(run_rival(rival, config), config.seconds)
        print(f"{rival.name}: {speeds[rival.name]:,.0f} frames/s", file=sys.stderr, flush=True)
    return speeds


def run_rival(rival: Rival, config: RivalsConfig) -> str:
    """Trains from the first frames that the log counts until all is measured; returns the log."""
    seconds = config.warm_up_secs + config.seconds
    with tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_") as scratch:
        child = rival.child(Path(config.directory).resolve(), Path(scratch))
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
