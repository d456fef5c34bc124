"""Whatever is killed with SIGKILL, no process that an environment has started is left."""

import os
import signal
from pathlib import Path

import pytest

from tests.launch.children import alive

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs Linux: elsewhere children are not tied"
    ),
]

# Each environment starts a child, one in a session of its own, and a daemon, whose parent has ended.
ENVIRONMENT = """
import os, pathlib, subprocess, sys
import gymnasium
import numpy as np

SIMULATOR = "import os, pathlib, time; pathlib.Path(f'simulator.{os.getpid()}').touch(); time.sleep(3600)"
DAEMON = "import os, subprocess, sys; os.setsid(); os.fork() and os._exit(0); " + SIMULATOR

class Simulated(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        nothing = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-c", SIMULATOR], stdin=nothing)
        subprocess.Popen([sys.executable, "-c", SIMULATOR], stdin=nothing, start_new_session=True, env={})
        subprocess.run([sys.executable, "-c", DAEMON], stdin=nothing, check=True)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 1.0, self.np_random.random() < 0.1, False, {}

gymnasium.register("Simulated-v0", Simulated)
"""
SPACE = """
environment: gym
agent: vtrace
flags: {game: "simulated:Simulated-v0", num_actors: 1, env_batch_size: 2, log_period_secs: 0.25}
space: {learning_rate: {log_uniform: [1e-3, 1e-2]}}
"""
FLAGS = ("--lstm_size=0", "--unroll_length=5", "--batch_size=1", "--intra_op_threads=1")


class Run:
    """A run under a launcher with one actor of two environments."""

    def __init__(self, house, launcher):
        (house.path / "simulated.py").write_text(ENVIRONMENT)
        (house.path / "space.yaml").write_text(SPACE)
        self.house, self.temporary = house, house.path / "tmp"
        if launcher == "sweep":
            house.logdir = house.path / "sweep" / "trial_001" / "seed_1"
            args = ("space.yaml", f"--logdir={house.path / 'sweep'}", "--trials=1", *FLAGS)
        else:
            own = ("gym", "vtrace", "1", "2", "--game=simulated:Simulated-v0", "--log_period_secs=0.25")
            args = (*own, *FLAGS, f"--logdir={house.logdir}")
        self.process = house.start(launcher, *args)
        house.wait_for_metrics(lambda line: line["updates"] > 0, self.process)
        # Those of the environments that were probed are gone.
        assert sum(map(alive, self.simulators())) == 6

    def simulators(self):
        """The process ids of all simulators so far."""
        return {int(path.suffix[1:]) for path in self.house.path.glob("simulator.*")}

    def wait_until_gone(self, pids):
        def left():
            return [pid for pid in pids if alive(pid)]

        self.house.wait_until(lambda: not left(), lambda: f"the end of {left()}")


@pytest.fixture
def start(house, monkeypatch):
    """Starts a run with a launcher; at the end, kills the simulators that are left."""
    (house.path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(house.path / "tmp"))
    runs = []

    def start_run(launcher):
        runs.append(Run(house, launcher))
        return runs[-1]

    yield start_run
    for run in runs:
        for pid in filter(alive, run.simulators()):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("launcher", ["train", "sweep"])
def test_a_launcher_that_is_killed_leaves_no_process_and_no_socket(start, launcher):
    run = start(launcher)
    left = run.simulators() | {process.pid for process in run.process.children()}
    assert list(run.temporary.iterdir())
    run.process.signal(signal.SIGKILL)
    run.wait_until_gone(left)
    run.house.wait_until(lambda: not list(run.temporary.iterdir()), "no directory of sockets", seconds=60)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_an_actor_that_ends_takes_its_environments_along_before_it_restarts(start, number):
    run = start("train")
    actor = run.process.child("actor")
    before = run.simulators() & {process.pid for process in actor.parent().children(recursive=True)}
    assert len(before) == 6
    actor.send_signal(number)
    so_far = len(run.simulators())
    run.process.wait_for("; restart 1")
    assert not any(map(alive, before))
    end = "ended with exit code 143" if number == signal.SIGTERM else f"was ended by {number.name}"
    assert f"actor 0 {end}" in run.process.output
    run.house.wait_until(lambda: len(run.simulators()) == so_far + 6, "the next environments")
    run.process.signal(signal.SIGTERM)
    assert run.process.end() == 143, run.process.output
    run.wait_until_gone(run.simulators())


def test_a_learner_that_is_killed_takes_its_environment_along(start):
    run = start("train")
    run.process.child("learner").kill()
    assert run.process.end() == 137
    assert run.process.last_line == "seed_rl: the learner was ended by SIGKILL."
    run.wait_until_gone(run.simulators())
    assert list(run.temporary.iterdir()) == []
