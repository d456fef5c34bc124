"""The command line of sweeps, with a few lines of Python in place of `seed_rl train` for the runs."""

import json
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from seed_rl.commands import sweep
from seed_rl.plotting import picture
from seed_rl.sweeps import trials
from seed_rl.sweeps.space import read_space
from seed_rl.sweeps.trials import draw
from tests.waiting import wait_until

SPACE = """
environment: catch
agent: vtrace
flags: {total_environment_frames: 1000, batch_size: 4}
space:
  learning_rate: {log_uniform: [1e-4, 1e-2]}
  unroll_length: {choice: [10, 20]}
"""

# It adds a line to `started` and runs SWEEP_FAKE's entry for its directory; without one, it trains at once.
# Its return is the seed plus a thousand times the learning rate; that of one that loses is much lower.
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
    luck = {"lose": -1000, "win": 1000}.get(what, 0)
    value = int(flags["seed"]) + 1000 * float(flags["learning_rate"]) + luck
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
if what in ("wait", "lose"):
    signal.signal(signal.SIGTERM, stop)
    if what == "lose":
        figures(252)
        figures(302)
    (logdir / "ready").touch()
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)
(logdir / "run.json").write_text("{}")
for frames in (252, 502, 752, 1004):
    figures(frames)
"""


def load_study(directory):
    """The study in a directory, as another process would read it."""
    storage = JournalStorage(JournalFileBackend(str(directory / "journal.log")))
    return optuna.load_study(study_name="sweep", storage=storage)


class Sweeping:
    """A space file, a directory, and the command line that uses them."""

    wait_until = staticmethod(wait_until)

    def __init__(self, path: Path, monkeypatch):
        self._monkeypatch = monkeypatch
        self.space = path / "space.yaml"
        self.space.write_text(SPACE)
        self.logdir = path / "sweep"
        self.plotted: list[tuple[list[Path], Path, str]] = []
        (path / "fake_main.py").write_text(FAKE)
        monkeypatch.setenv("PYTHONPATH", str(path))
        monkeypatch.setattr(trials, "_PROGRAM", ("fake_main",))
        monkeypatch.setattr(picture, "draw_runs", lambda *drawn: self.plotted.append(drawn))

    def behave(self, **what):
        """Sets what runs do, such as t1s2="fail" for trial 1, seed 2."""
        names = {f"trial_{int(key[1]):03d}/seed_{key[3:]}": value for key, value in what.items()}
        self._monkeypatch.setenv("SWEEP_FAKE", json.dumps(names))

    def __call__(self, *args) -> int:
        return sweep.main(["sweep", str(self.space), f"--logdir={self.logdir}", *args])

    def run(self, trial, seed) -> Path:
        return self.logdir / f"trial_{trial:03d}" / f"seed_{seed}"

    def starts(self, trial, seed) -> int:
        path = self.run(trial, seed) / "started"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def drawn(self, trial, sweep_seed=1):
        """The values of a trial that is sampled at random."""
        return draw(read_space(self.space), sweep_seed, trial)

    def runs(self):
        """Optuna's trials that count, by trial and seed, as another process would read them."""
        study = load_study(self.logdir)
        return {(run.user_attrs["trial"], run.user_attrs["seed"]): run for run in study.trials}

    def contents(self):
        """Everything in the directory, by name."""
        paths = self.logdir.rglob("*") if self.logdir.exists() else []
        return {str(path.relative_to(self.logdir)): path.is_file() and path.read_bytes() for path in paths}


@pytest.fixture
def sweeping(tmp_path, monkeypatch):
    return Sweeping(tmp_path, monkeypatch)


EVERY_KIND = """
environment: catch
agent: vtrace
flagfile: ../one.flags
flags: {total_environment_frames: 1e5, optimizer: adam, normalize_observations: true, mlp_sizes: "8,8"}
space:
  unroll_length: {int_uniform: [3, 1e1]}
  clip_norm: {uniform: [0.5, 2]}
  learning_rate: {log_uniform: [1e-5, 1.0E-2]}
  adam_epsilon: {choice: [1e-7, 0.001, 1]}
  torso: {choice: [auto, mlp]}
"""


@pytest.fixture
def space(tmp_path_factory):
    """A space with a distribution of each kind, and numbers that YAML takes for text."""
    path = tmp_path_factory.mktemp("spaces") / "space.yaml"
    path.write_text(EVERY_KIND)
    return read_space(path)
