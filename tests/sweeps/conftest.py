"""The command line of sweeps, with a few lines of Python in place of `seed_rl train` for the runs."""

import json
import sys
from pathlib import Path

import pytest

from seed_rl.commands import sweep
from seed_rl.plotting import picture
from seed_rl.plotting.config import PlotConfig
from seed_rl.sweeps import trials
from seed_rl.sweeps.trials import Run
from tests.waiting import wait_until

SPACE = """
environment: catch
agent: vtrace
flags: {total_environment_frames: 1000, batch_size: 4}
space:
  learning_rate: {log_uniform: [1e-4, 1e-2]}
  unroll_length: {choice: [10, 20]}
"""

# It adds a line to `started` and does what SWEEP_FAKE says for its directory; otherwise it trains in no time.
# Its return is the seed plus a thousand times the learning rate.
FAKE = """
import json, os, signal, sys, time
from pathlib import Path

flags = dict(arg[2:].partition("=")[::2] for arg in sys.argv[1:])
logdir = Path(flags["logdir"])
logdir.mkdir(parents=True, exist_ok=True)
with open(logdir / "started", "a") as started:
    print(json.dumps(sys.argv[1:]), file=started)
what = json.loads(os.environ.get("SWEEP_FAKE", "{}")).get(f"{logdir.parent.name}/{logdir.name}", "")

def figures(frames):
    value = int(flags["seed"]) + 1000 * float(flags["learning_rate"])
    with open(logdir / "metrics.jsonl", "a") as metrics:
        print(json.dumps({"env_frames": frames, "seconds": frames / 100, "mean_return": value}), file=metrics)

def stop(*_):
    with open(logdir / "signals", "a") as signals:
        print("SIGTERM", file=signals, flush=True)
    frames = 500
    figures(frames)
    print("seed_rl: stopped; the same command resumes it.")
    sys.exit(0 if frames >= 1000 else 143)

if what == "fail":
    print("out of luck\\n")
    sys.exit(3)
if what == "stop":
    stop()
if what == "wait":
    signal.signal(signal.SIGTERM, stop)
    (logdir / "ready").touch()
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)
(logdir / "run.json").write_text("{}")
figures(1004)
"""


class Sweeping:
    """A space file, a directory, and the command line that uses them."""

    wait_until = staticmethod(wait_until)

    def __init__(self, path: Path, monkeypatch):
        self._monkeypatch = monkeypatch
        self.space = path / "space.yaml"
        self.space.write_text(SPACE)
        self.logdir = path / "sweep"
        self.plotted: list[tuple[list[Path], PlotConfig]] = []
        (path / "fake_main.py").write_text(FAKE)
        monkeypatch.setenv("PYTHONPATH", str(path))
        monkeypatch.setattr(trials, "_PROGRAM", ("fake_main",))
        monkeypatch.setattr(picture, "draw_runs", lambda *drawn: self.plotted.append(drawn))

    def behave(self, **what):
        """Sets what runs do, such as t1s2="fail" for trial 1, seed 2."""
        names = {f"trial_{int(key[1]):03d}/seed_{key[3:]}": value for key, value in what.items()}
        self._monkeypatch.setenv("SWEEP_FAKE", json.dumps(names))

    def __call__(self, *args) -> int:
        return sweep.main(["sweep", f"--space={self.space}", f"--logdir={self.logdir}", *args])

    def run(self, trial, seed) -> Path:
        return self.logdir / f"trial_{trial:03d}" / f"seed_{seed}"

    def starts(self, trial, seed) -> int:
        path = self.run(trial, seed) / "started"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def outcome(self, trial, seed):
        path = self.run(trial, seed).with_suffix(".json")
        return json.loads(path.read_text()) if path.exists() else None

    def contents(self):
        """Everything in the directory, by name."""
        paths = self.logdir.rglob("*") if self.logdir.exists() else []
        return {str(path.relative_to(self.logdir)): path.is_file() and path.read_bytes() for path in paths}


@pytest.fixture
def sweeping(tmp_path, monkeypatch):
    return Sweeping(tmp_path, monkeypatch)


@pytest.fixture
def make_run(tmp_path):
    """Makes a run of a thousand frames whose directory contains the given metrics."""

    def make(periods=(), name="seed_1") -> Run:
        run = Run(1, 1, [sys.executable, "-c", ""], tmp_path / "trial_001" / name, 1000)
        run.logdir.mkdir(parents=True)
        lines = [json.dumps(period) + "\n" for period in periods]
        (run.logdir / "metrics.jsonl").write_text("".join(lines))
        return run

    return make
