"""Whole runs with users' environments: unusual spaces, their own figures, vectors, failures and rudeness."""

import json
import signal

import pytest

from tests.environments.odd import KIND, LENGTH
from tests.installed import install

pytestmark = pytest.mark.slow

HALLWAY = ("--environment=gym", "--game=tests.environments.hallway:Hallway-v0")
SIZE = """--env_kwargs={"size": 5}"""


@pytest.mark.parametrize("transport", ["grpc", "shared_memory"])
def test_arguments_and_figures_go_all_the_way(house, transport):
    learner = house.learner(*HALLWAY, SIZE, "--num_envs=4", "--total_environment_frames=3000")
    actor = house.actor(
        HALLWAY[0], HALLWAY[1], f"--transport={transport}"
    )  # The learner sends it the arguments.
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output
    last = house.metrics()[-1]
    assert last["episode/size"] == 5
    assert last["episode/is_success"] == pytest.approx(last["mean_return"])
    assert "episode/other" not in last
    assert learner.output.count("'unused' is not a finite number") == 1
    assert ", is_success " in learner.output

    settings = json.loads((house.logdir / "run.json").read_text())["identity"]["environment"]["settings"]
    assert settings["env_kwargs"] == '{"size": 5}'
    evaluation = house.start("evaluate", house.logdir, "--episodes=6", f"--output={house.path}/result.json")
    assert evaluation.end() == 0, evaluation.output
    result = json.loads((house.path / "result.json").read_text())
    assert result["episode/size"] == 5
    assert result["episode/is_success"] == pytest.approx(result["mean_return"])

    other = house.learner(*HALLWAY, "--num_envs=4", "--total_environment_frames=3000")
    assert other.end() == 2 and "env_kwargs" in other.last_line


def test_a_run_that_reaches_its_return_is_complete_and_stays_so(house):
    flags = (*HALLWAY, "--num_envs=4", "--total_environment_frames=1000000", "--stop_at_return=0.5")
    frames = 0
    for num_actors in (1, 0):  # The second learner needs none.
        learner = house.learner(*flags)
        actors = [house.actor(*HALLWAY) for _ in range(num_actors)]
        assert learner.end() == 0, learner.output
        assert [actor.end() for actor in actors] == [0] * num_actors
        last = house.metrics()[-1]
        assert last["mean_return"] >= 0.5 and last["episodes"] >= 100
        assert "--stop_at_return is reached: " in learner.last_line
        assert json.loads((house.logdir / "run.json").read_text())["ended"] == "return"
        assert frames in (0, last["env_frames"])
        frames = last["env_frames"]
    assert (house.logdir / "saved_model").is_dir()


def test_an_argument_that_the_constructor_does_not_take_ends_the_start(house):
    learner = house.learner(*HALLWAY, """--env_kwargs={"length": 5}""")
    assert learner.end() == 2
    assert "does not take the argument 'length'" in learner.last_line
    assert "Traceback" not in learner.output


def test_videos_are_recorded_while_training_goes_on(house):
    flags = ("--record_every_minutes=0.03", "--save_checkpoint_secs=5", "--total_environment_frames=1e9")
    few = ("1", "1", "--intra_op_threads=1")  # Part of a processor is left for the recording.
    run = house.start("train", "catch", "vtrace", *few, *flags, f"--logdir={house.logdir}")
    videos = house.logdir / "videos"
    house.wait_until(lambda: videos.is_dir() and list(videos.glob("*.mp4")), lambda: run.output)
    run.signal(2)
    assert run.end() == 130
    assert "no more videos" not in run.output


ENVIRONMENT = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

INF = np.inf
VECTOR = Box(-1, 1, (3,))

class Payer(gymnasium.Env):
    def __init__(self, observations=VECTOR, actions=Discrete(2), unit=1.0):
        self.observation_space, self.action_space, self.unit = observations, actions, unit

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        reward = float(np.reshape(action, -1)[0]) / self.unit
        return self.observation_space.sample(), reward, self.time == 5, False, {}

def register(name, **kwargs):
    gymnasium.register(name + "-v0", Payer, kwargs=kwargs)

register("Mixed", actions=Box(np.array([100, -INF]), np.array([500, INF]), dtype=np.float64), unit=100)
register("Half", actions=Box(np.array([100, 7]), np.array([INF, 7]), dtype=np.float64), unit=101)
register("First", observations=Box(0, 255, (4, 40, 40), np.uint8))
register("Empty", observations=Dict(a=Box(0, 1, (0,)), b=VECTOR, c=MultiDiscrete([])))
"""


TRANSITIONS = (
    "--replay_buffer_size=500",
    "--replay_buffer_min_size=100",
    "--num_eval_envs=0",
    "--replay_ratio=4",
)
# Hardly anything is learned: a new policy is in the middle of its bounds. There, Mixed pays 1 to 5
# and Half 1 for each of 5 steps.
NEW = ("--learning_rate=1e-9",)
ANY = (-float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("game", "agent", "flags", "returns"),
    [
        ("Mixed", "vtrace", NEW, (14, 16)),
        ("Half", "vtrace", NEW, (4.9, 5.1)),
        *((game, "vtrace", (), ANY) for game in ("First", "Empty")),
        *((game, "dqn", TRANSITIONS, ANY) for game in ("First", "Empty")),
    ],
)
def test_agents_train_in_unusual_spaces(house, game, agent, flags, returns):
    (house.path / "odd.py").write_text(ENVIRONMENT)
    run = house.start(
        *("train", "gym", agent, "1", "4", f"--game=odd:{game}-v0", f"--logdir={house.logdir}", *flags),
        *(
            "--total_environment_frames=2000",
            "--log_period_secs=0.25",
            "--intra_op_threads=1",
            "--batch_size=4",
        ),
    )
    assert run.end() == 0, run.output
    assert returns[0] < house.metrics()[-1].get("mean_return", 0.0) < returns[1]
    assert "replacing it" not in (house.logdir / "actor_0.log").read_text()


SHORT = ("--total_environment_frames=20000", "--log_period_secs=0.5")


@pytest.mark.parametrize(
    ("environment", "agent", "flags"),
    [
        ("gym", "ppo", ("--vectorization=sync",)),
        ("gym", "ppo", ("--vectorization=async",)),
        ("gym", "vtrace", ("--vectorization=native",)),
        ("gym", "vtrace", ("--vectorization=native", "--inference=actor")),
        ("gym", "dqn", ("--vectorization=native", "--replay_buffer_min_size=500")),
        (
            "envpool",
            "sac",
            ("--game=Pendulum-v1", "--replay_buffer_min_size=500", "--total_environment_frames=2000"),
        ),
        ("envpool", "ppo", ("--game=MiniGrid-DoorKey-5x5-v0", "--env_batch_size=8")),
        ("envpool", "ppo", ("--game=Jumanji/Game2048-v1",)),  # With masks of actions.
        # VizDoom forks in several threads, which gRPC must survive.
        ("envpool", "ppo", ("--game=Basic-v1", "--env_batch_size=4", "--total_environment_frames=2000")),
    ],
)
def test_vector_environments_train(house, environment, agent, flags):
    if environment == "envpool":
        pytest.importorskip("envpool")
    run = house.start("train", environment, agent, *SHORT, *flags, f"--logdir={house.logdir}")
    assert run.end(120) == 0, run.output
    last = house.metrics()[-1]
    assert last["updates"] > 0 and last["env_frames"] >= 2000
    assert "Environments" not in (house.logdir / "actor_0.log").read_text()  # None has failed.


def test_environment_processes_cost_their_groups_episodes_and_end_with_their_actor(house):
    learner = house.learner("--environment=gym", "--game=CartPole-v1", "--vectorization=async")
    actor = house.start("actor", *house.actor_args()[:1], "--env_batch_size=16")
    house.wait_for_progress(learner)
    worker = next(p for p in actor.children() if not p.children() and "forkserver" in " ".join(p.cmdline()))
    worker.kill()
    actor.wait_for("Environments 0 to 15 failed")
    house.wait_for_progress(learner)
    children = actor.children()
    assert actor.running and len(children) >= 16
    actor.signal(9)
    house.wait_until_gone(children)


ODD = ("--environment=gym", "--game=tests.environments.odd:Odd-v0")

# (kind, text of the actor's message).
KINDS = {
    "our_keys": "",
    "integer_outside": "step() returned 7 for the observation, but its observation space says 0 to 5",
    "sleeps": "step() did not return within 1 s (--env_step_timeout_secs)",
}


@pytest.mark.parametrize(("kind", "clause"), KINDS.items(), ids=KINDS)
def test_a_run_continues_with_the_return_of_honest_environments(house, monkeypatch, kind, clause):
    monkeypatch.setenv(KIND, kind)
    start = () if clause else ("--random_start_steps=50",)  # Its episodes would be shorter.
    learner = house.learner(*ODD, *start, "--num_envs=4")
    actor = house.actor(*ODD, *start, "--env_step_timeout_secs=1")
    found = house.wait_for_metrics(lambda line: line["episodes"] >= 40, learner)
    assert found["mean_return"] == found["mean_episode_agent_steps"] == LENGTH
    assert clause in actor.output and ("replacing it (1 of 3)" in actor.output) == bool(clause)
    assert actor.running and "\nTraceback" not in actor.output  # Those of environments are indented.


def test_native_code_that_hangs_ends_the_actor_which_says_where(house, monkeypatch):
    monkeypatch.setenv(KIND, "locks")
    learner = house.learner(*ODD, "--num_envs=4")
    actor = house.actor(*ODD, "--env_step_timeout_secs=0.5")
    assert actor.end() == 1
    assert "in locks" in actor.output
    assert learner.running


@pytest.mark.parametrize("seed", [0, 2**63])
def test_every_seed_suits_every_random_generator(house, monkeypatch, seed):
    monkeypatch.setenv(KIND, "old_generator")
    learner = house.learner(*ODD, "--num_envs=4", f"--seed={seed}", "--total_environment_frames=400")
    actor = house.actor(*ODD)
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output


MODULE = """
import atexit, gymnasium, os, signal, sys, threading, time
import numpy as np

STEPS = 0

class Rude(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.at("make")

    def reset(self, *, seed=None, options=None):
        self.time = 0
        self.at("reset")
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        global STEPS
        STEPS += 1
        self.time += 1
        self.at("step")
        return np.zeros(2, np.float32), 1.0, self.time == 10, False, {{}}

    def at(self, place):
        {code}

gymnasium.register("Rude-v0", Rude)
"""

RUDE = {
    "ignores signals": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 10, 12, 15)]",
    "exits at signals": "[signal.signal(n, lambda *_: sys.exit(0)) for n in (1, 2, 10, 12, 15)]",
    "changes the directory": "os.chdir('/')",
    "leaves a thread": "place == 'make' and threading.Thread(target=time.sleep, args=(3600,)).start()",
    "prints at exit": "place == 'make' and atexit.register(print, 'Bye.')",
    "hangs at exit": "place == 'make' and atexit.register(time.sleep, 3600)",
    "ends its process with 0 at times": "place == 'step' and STEPS == 1000 and os._exit(0)",
    "ends its process with 2 at times": "place == 'step' and STEPS == 1000 and os._exit(2)",
}


def start(house, code, *args):
    (house.path / "rude.py").write_text(MODULE.format(code=code))
    flags = (
        "--game=rude:Rude-v0",
        "--logdir=run",
        "--num_actors=1",
        "--env_batch_size=4",
        "--log_period_secs=0.25",
    )
    return house.start("train", "gym", "ppo", *flags, *args)


@pytest.mark.parametrize("code", RUDE.values(), ids=RUDE)
def test_a_run_is_complete_where_it_was_started(house, code):
    run = start(house, code, "--total_environment_frames=3000")
    assert run.end() == 0, run.output
    assert (house.logdir / "run.json").exists() and list(house.logdir.glob("checkpoints/*.index"))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("kind", ["ignores signals", "exits at signals"])
def test_a_signal_leaves_a_checkpoint(house, kind, signum):
    run = start(house, RUDE[kind], "--total_environment_frames=1000000000")
    house.wait_for_metrics(lambda line: line["updates"] > 0, run)
    run.signal(signum)
    assert run.end() == 128 + signum, run.output
    assert list(house.logdir.glob("checkpoints/*.index"))


THEIRS = """
import os
from seed_rl.environments.suites.catch import SUITE

with open({seen!r}, "a") as file:
    print(os.getpid(), file=file)
"""
# A learner that shows which suites its process has imported.
LEARNER = """
import sys
from seed_rl.commands.learner import main
code = main(["learner", *sys.argv[1:]])
print([name for name in sys.modules if name.startswith("seed_rl.environments.suites.")])
sys.exit(code)
"""


@pytest.fixture
def seen(house, monkeypatch):
    """The ids of the processes that have imported a third party's suite, `mine`, which is Catch."""
    path = house.path / "seen"
    path.touch()
    (house.path / "theirs.py").write_text(THEIRS.format(seen=str(path)))
    install(house.path, monkeypatch, "seed_rl.environments", mine="theirs:SUITE")
    return lambda: set(map(int, path.read_text().split()))


def test_a_learner_of_a_launcher_imports_no_suite(house, seen):
    flags = ("1", "4", "--rows=6", "--replay_buffer_min_size=64", "--intra_op_threads=1")
    for _ in range(2):  # The second run resumes the first.
        run = house.start(
            "train", "mine", "dqn", *flags, "--log_period_secs=0.25", f"--logdir={house.logdir}"
        )
        learner, actor = (run.child(name).pid for name in ("learner", "actor"))
        house.wait_for_progress(run)  # The updates of a resumed run begin above 0.
        run.signal(signal.SIGINT)
        assert run.end() == 130, run.output
        assert {run.pid, actor} <= seen() and learner not in seen()


def test_a_learner_that_was_started_by_hand_imports_no_suite(house, seen):
    flags = ("--environment=mine", "--rows=6", "--total_environment_frames=2000")
    for _ in range(2):  # The second one has no more to train.
        learner = house.learner(*flags, code=LEARNER)
        actor = house.only_actor() if not house.metrics() else None
        assert learner.end() == 0, learner.output
        assert learner.last_line == "[]" and learner.pid not in seen()
        if actor:
            assert actor.end() == 0 and actor.pid in seen()
    wrong = house.learner(*flags, "--row=7")
    assert wrong.end() == 2
    assert "Unknown flag --row for environment mine and agent vtrace; did you mean --rows" in wrong.last_line
