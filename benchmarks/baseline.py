"""The speed of two checkouts on one device, in turn: inference and training, as in benchmarks.parts.

A process for each checkout stays until the end and measures on request, so that the two take
turns second by second, on a machine whose speed drifts from one minute to the next. Both run this checkout's
benchmarks, with the package `seed_rl` of their own.

The child is `python -m benchmarks.baseline FLAGS_OF_LOCAL_MAIN`: for each line `PART SECONDS` of its standard
input, it prints agent steps/s.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import seed_rl
from benchmarks.harness import ROOT
from benchmarks.parts import LearnerParts
from seed_rl.flags.errors import run_main
from seed_rl.launch.plan import resolve_run

_PARTS = ("inference", "training")


class _Checkout:
    """The child of one checkout, which ends with the context."""

    def __init__(self, directory: Path, run_flags: Sequence[str]):
        self._package, self._flags = directory.resolve() / "seed_rl", run_flags

    def __enter__(self) -> "_Checkout":
        self._directory = tempfile.TemporaryDirectory(prefix="seed_rl_benchmark_")
        place = Path(self._directory.name)
        (place / "seed_rl").symlink_to(self._package)
        (place / "benchmarks").symlink_to(ROOT / "benchmarks")
        self._log = place / "log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.baseline", *self._flags],
                cwd=place,  # The first place that Python searches for packages.
                # Two processes may share a GPU.
                env={**os.environ, "PYTHONUNBUFFERED": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()  # The end of its input is its end.
        self._directory.cleanup()

    def check(self) -> None:
        """Waits until the child is ready.

        Raises:
          RuntimeError: it failed, or has imported another package than its own.
        """
        found = self._answer()
        if found != str(self._package):
            raise RuntimeError(f"Python imports {found} instead of {self._package}.")

    def seconds_per_step(self, seconds: float) -> dict[str, float]:
        """The seconds that an agent step takes, by part, each measured for so many seconds."""
        found = {}
        for part in _PARTS:
            assert self._process.stdin is not None
            print(part, seconds, file=self._process.stdin, flush=True)
            found[part] = 1 / float(self._answer())
        return found

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            end = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise RuntimeError(f"The benchmark of {self._package} failed:\n{end}")
        return line.strip()


def compare(directory: Path, run_flags: Sequence[str], pairs: int, seconds: float) -> dict[str, Any]:
    """Compares this checkout with another one.

    Args:
      directory: the other checkout.
      run_flags: flags of `seed_rl train` that both know.
      pairs: how many pairs of measurements there are; which checkout comes first changes from pair to pair.
      seconds: of each measurement of a part.

    Returns:
      `ratio`, the median over pairs of this checkout's speed divided by the other's, where an agent step
      takes its inference and its part of an update, and `quartiles` of it; `ratios` of the parts; agent
      steps/s of both checkouts, medians.

    Raises:
      RuntimeError: a child failed.
    """
    with _Checkout(ROOT, run_flags) as this, _Checkout(directory, run_flags) as other:
        for checkout in (this, other):
            checkout.check()
        found: dict[_Checkout, list[dict[str, float]]] = {this: [], other: []}
        for pair in range(pairs):
            for checkout in (this, other) if pair % 2 else (other, this):
                found[checkout].append(checkout.seconds_per_step(seconds))
    mine, theirs = found[this], found[other]
    ratios = {
        part: statistics.median(b[part] / a[part] for a, b in zip(mine, theirs, strict=True))
        for part in _PARTS
    }
    whole = [sum(b.values()) / sum(a.values()) for a, b in zip(mine, theirs, strict=True)]
    low, _, high = statistics.quantiles(whole, n=4) if len(whole) > 1 else whole * 3
    return {
        "ratio": statistics.median(whole),
        "quartiles": [low, high],
        "ratios": ratios,
        "agent_steps_per_second": {
            name: {part: 1 / statistics.median(x[part] for x in rounds) for part in _PARTS}
            for name, rounds in (("this", mine), ("baseline", theirs))
        },
    }


def main(argv: list[str]) -> int:
    """The child: measures until its input ends."""
    parts = LearnerParts(resolve_run(argv, __doc__ or ""))
    measured = {"inference": parts.inference(), "training": parts.training()}
    print(Path(seed_rl.__file__).resolve().parent, flush=True)
    for line in sys.stdin:
        part, seconds = line.split()
        print(measured[part].rate(float(seconds)), flush=True)
    return 0


if __name__ == "__main__":
    run_main(main, sys.argv)
