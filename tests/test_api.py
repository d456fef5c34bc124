"""The Python interface, used as in the docs: training in real processes, acting, evaluating."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import seed_rl

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"total_environment_frames": 30_000, "log_period_secs": 0.5}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))


def command(*args):
    """A command that has ended."""
    variables = {**os.environ, "PYTHONPATH": ROOT}
    words = [sys.executable, "-m", "seed_rl", *map(str, args)]
    return subprocess.run(words, env=variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def catch(tmp_path_factory):
    """A short run of Catch with an LSTM."""
    return seed_rl.train(
        "catch", "vtrace", logdir=tmp_path_factory.mktemp("catch") / "run", lstm_size=16, **SMALL
    )


@pytest.fixture(scope="module")
def cart_pole(tmp_path_factory):
    """A run whose environments a lambda makes."""
    logdir = tmp_path_factory.mktemp("lambda") / "run"
    return seed_rl.train(lambda: gymnasium.make("CartPole-v1"), "ppo", logdir=logdir, **SMALL)


def test_a_function_may_make_a_vector_environment(tmp_path):
    def make(num_envs):
        return gymnasium.make_vec("CartPole-v1", num_envs)

    run = seed_rl.train(make, "ppo", logdir=tmp_path / "run", **SMALL)
    assert "native" in (tmp_path / "run" / "run.json").read_text()
    assert run.evaluate(2)["episodes"] == 2


def test_a_vector_environment_of_another_size_than_the_group_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has 5 environments and the group 8; make it with num_envs=8"):
        seed_rl.train(lambda: gymnasium.make_vec("CartPole-v1", 5), "ppo", logdir=tmp_path / "run", **SMALL)


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, seed_rl, seed_rl.commands.actor\n"
        "print([name for name in ('tensorflow', 'cloudpickle', 'seed_rl.api') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_a_run_has_its_figures_and_the_same_call_trains_no_further(catch):
    figures = catch.metrics()
    assert figures["env_frames"].max() >= SMALL["total_environment_frames"]
    assert len(figures["mean_return"]) == len(figures["env_frames"])
    again = seed_rl.train("catch", "vtrace", logdir=catch.logdir, lstm_size=16, **SMALL)
    assert again.logdir == catch.logdir
    assert catch.metrics()["env_frames"].tolist() == figures["env_frames"].tolist()


@pytest.mark.slow
def test_evaluating_gives_what_the_command_writes(catch):
    found = seed_rl.evaluate(catch.logdir, episodes=6, seed=3)
    assert (
        command("evaluate", catch.logdir, "--episodes=6", "--seed=3", "--output=result.json").returncode == 0
    )
    assert found == json.loads(Path("result.json").read_text())


@pytest.mark.slow
def test_an_agent_plays_an_episode_as_evaluation_does(catch):
    """The greedy agent of a run with an LSTM, in the run's environment: the same return in every episode."""
    expected = seed_rl.evaluate(catch, episodes=4, num_envs=1, greedy=True)
    agent = catch.load(greedy=True)
    returns = []
    with catch.make_env() as env:
        for seed in expected["seeds"]:
            agent.reset()
            observation, _ = env.reset(seed=seed)
            reward, ended, total = 0.0, False, 0.0
            while not ended:
                observation, reward, terminated, truncated, _ = env.step(agent.act(observation, reward))
                ended, total = terminated or truncated, total + reward
            returns.append(total)
    assert returns == expected["returns"]


@pytest.mark.slow
def test_a_batch_acts_as_each_of_its_environments_alone(catch):
    batch, alone = catch.load(num_envs=3, greedy=True), [catch.load(greedy=True) for _ in range(3)]
    rng = np.random.default_rng(1)
    space = batch.observation_space
    for _ in range(5):
        observations = rng.integers(0, 2, (3, *space.shape)).astype(space.dtype)
        rewards = rng.normal(size=3)
        actions = batch.act(observations, rewards)
        assert actions.tolist() == [
            one.act(o, r) for one, o, r in zip(alone, observations, rewards, strict=True)
        ]


@pytest.mark.slow
def test_a_function_makes_the_environments(cart_pole):
    (file,) = cart_pole.logdir.glob("environment_*.pickle")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cart_pole.metrics()["mean_return"].max() > 40  # At random: 22.
    agent = cart_pole.load()
    env = gymnasium.make("CartPole-v1")
    assert env.action_space.contains(agent.act(env.reset(seed=1)[0]))
    assert seed_rl.load(cart_pole.logdir).num_envs is None  # This user has trained it.


@pytest.mark.slow
def test_another_function_does_not_get_a_run_that_is_complete(cart_pole):
    before = sorted(cart_pole.logdir.rglob("*"))
    with pytest.raises(seed_rl.UsageError, match=r"another function\); use another --logdir") as caught:
        seed_rl.train(lambda: gymnasium.make("Acrobot-v1"), "ppo", logdir=cart_pole.logdir, **SMALL)
    assert "overwrite=True" in str(caught.value)
    assert sorted(cart_pole.logdir.rglob("*")) == before
    again = seed_rl.train(lambda: gymnasium.make("CartPole-v1"), "ppo", logdir=cart_pole.logdir, **SMALL)
    assert again.logdir == cart_pole.logdir
    assert sorted(cart_pole.logdir.rglob("*")) == before


@pytest.mark.slow
def test_runs_of_a_loop_over_a_parameter_and_a_seed_are_runs_of_their_own():
    tiny = {"total_environment_frames": 500, "num_actors": 1, "env_batch_size": 4}

    def maker(way):
        return lambda: gymnasium.make("CartPole-v1", sutton_barto_reward=way)

    directories = {
        seed_rl.train(maker(way), "ppo", **flags, **tiny).logdir.relative_to(Path.cwd()).as_posix()
        for way in (False, True)
        for flags in ({}, {"seed": 3})
    }
    assert len(directories) == 4
    assert all(re.fullmatch(r"runs/CartPole-v1_ppo_[0-9a-f]{6}(_seed3)?", name) for name in directories)


@pytest.mark.slow
def test_a_run_resumes_with_its_seed_and_a_history_or_starts_anew():
    tiny = {"logdir": "run", "num_actors": 1, "env_batch_size": 4, "lstm_size": 0}
    run = seed_rl.train("catch", "vtrace", seed=3, total_environment_frames=500, **tiny)
    os.chdir("/")  # The run stays where it is.
    run.metrics()
    os.chdir(run.logdir.parent)
    with pytest.raises(seed_rl.UsageError, match=r"learning_rate 0\.005 -> 0\.01"):
        seed_rl.train("catch", "vtrace", total_environment_frames=500, learning_rate=0.01, **tiny)
    with pytest.raises(seed_rl.UsageError, match="trained with seed 3, not 4"):
        seed_rl.train("catch", "vtrace", seed=4, total_environment_frames=1000, **tiny)
    seed_rl.train("catch", "vtrace", total_environment_frames=1000, learning_rate=0.01, **tiny)
    content = json.loads((run.logdir / "run.json").read_text())
    assert content["settings"]["learner"]["seed"] == 3
    assert [entry["changed"] for entry in content["history"]] == [{"learning_rate": [0.005, 0.01]}]
    seed_rl.train("catch", "vtrace", seed=4, total_environment_frames=500, overwrite=True, **tiny)
    assert json.loads(Path("run/run.json").read_text())["settings"]["learner"]["seed"] == 4
    assert json.loads(Path("run.1/run.json").read_text()) == content


@pytest.mark.slow
def test_a_function_that_takes_render_mode_can_be_filmed(cart_pole):
    def make(render_mode=None):
        return gymnasium.make("CartPole-v1", render_mode=render_mode)

    def record(run):
        return command("evaluate", run.logdir, "--episodes=2", "--record=video.gif")

    before = sorted(cart_pole.logdir.rglob("*"))
    refused = record(cart_pole)
    assert refused.returncode == 2 and "lambda render_mode=None: gymnasium.make" in refused.stderr
    assert "Warn" not in refused.stderr and sorted(cart_pole.logdir.rglob("*")) == before
    done = record(seed_rl.train(make, "ppo", logdir="run", total_environment_frames=500))
    assert done.returncode == 0, done.stderr
    assert Path("video.gif").exists()


@pytest.mark.slow
def test_a_run_with_a_function_can_be_moved(cart_pole):
    shutil.copytree(cart_pole.logdir, "at 12:30")
    with pytest.raises(ValueError, match="names code"):
        seed_rl.load("at 12:30")
    run = seed_rl.Run("at 12:30", trust_code=True)
    (file,) = cart_pole.logdir.glob("environment_*.pickle")
    file.rename("hidden")
    try:
        assert len(run.evaluate(episodes=2)["returns"]) == 2
    finally:
        Path("hidden").rename(file)


@pytest.mark.slow
def test_ctrl_c_stops_with_a_checkpoint_and_the_same_call_resumes():
    code = (
        "import seed_rl, sys\n"
        "seed_rl.train('atari', 'vtrace', num_actors=1, game='Pong', logdir='pong', log_period_secs=1,"
        " total_environment_frames=int(sys.argv[1]))"
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", code, "1000000000"]
    with subprocess.Popen(command, env=variables, stdout=-1, stderr=subprocess.STDOUT, text=True) as process:
        assert any("updates," in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert rest.rstrip().endswith("KeyboardInterrupt")
    run = seed_rl.Run("pong")
    trained = run.metrics()["env_frames"].max()
    subprocess.run([*command[:-1], str(trained + 1000)], env=variables, check=True)
    assert trained < run.metrics()["env_frames"].max()

    # The agent of an Atari game plays in the environment that the run makes.
    agent, env = run.load(), run.make_env()
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        observation, _, terminated, truncated, _ = env.step(agent.act(observation))
        assert not (terminated or truncated)
        assert agent.observation_space.contains(observation)
    env.close()


def boom():
    raise OSError("no display")


@pytest.mark.parametrize(
    ("args", "flags", "words"),
    [
        (("catch", "vtrac"), {}, "--agent=vtrac is not valid"),
        (("catsh", "vtrace"), {}, "--environment=catsh is not valid"),
        (("catch", "vtrace"), {"learning_rat": 1}, "Unknown flag --learning_rat"),
        (("catch", "vtrace"), {"mlp_sizes": {8}}, "mlp_sizes is or contains a value of type set"),
        (("gym", "ppo"), {"game": "CartPole-v1", "env_kwargs": {"a": print}}, "env_kwargs is or contains"),
        (("gym", "ppo"), {"game": "CartPole-v1", "env_kwargs": {"a": 6}}, "does not take the argument 'a'"),
        (("catch", "vtrace"), {"unroll_length": 0}, "--unroll_length=0 is too low"),
        ((lambda: 5, "ppo"), {}, "returned int"),
        ((boom, "ppo"), {}, "no display"),
        ((gymnasium.make("CartPole-v1"), "ppo"), {}, "write something like train(lambda: gymnasium.make(ID)"),
        ((None, "ppo"), {}, "is of type NoneType"),
        (("catch", None), {}, "The agent must be a name"),
        ((lambda: gymnasium.make("CartPole-v1"), "sax"), {}, "--agent=sax is not valid"),
        (("--help", "vtrace"), {}, "--help is a flag"),
        (("catch", "--help"), {}, "--help is a flag"),
        (("catch", "vtrace"), {"help": True}, "no argument 'help'"),
    ],
)
def test_a_wrong_call_gets_one_sentence_and_leaves_nothing(args, flags, words):
    with pytest.raises(seed_rl.UsageError, match=re.escape(words)) as caught:
        seed_rl.train(*args, **flags)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert ("in boom" in "".join(getattr(caught.value, "__notes__", ()))) == (args[0] is boom)
    runs = Path("runs")
    assert not runs.exists() or not list(runs.iterdir())


def test_training_in_another_thread_is_refused_in_one_sentence():
    with ThreadPoolExecutor(1) as pool, pytest.raises(seed_rl.UsageError, match="needs the main thread"):
        pool.submit(seed_rl.train, "catch", "vtrace").result(timeout=60)
    assert not Path("runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "flags", "words"),
    [
        *(
            ("evaluate", {name: "x"}, f"no argument '{name}'")
            for name in ("record", "output", "overwrite", "logdir")
        ),
        ("evaluate", {"episode": 3}, "Unknown flag --episode; did you mean --episodes"),
        ("load", {"num_envs": 0}, "at least 1"),
        ("load", {"num_envs": -1}, "at least 1"),
    ],
)
def test_arguments_that_a_run_cannot_use_are_refused(cart_pole, method, flags, words):
    with pytest.raises(seed_rl.UsageError, match=words):
        getattr(cart_pole, method)(**flags)


def test_there_is_no_such_run():
    for find in (seed_rl.Run, seed_rl.load, seed_rl.evaluate):
        with pytest.raises(ValueError, match="nothing") as error:
            find("nothing")
        assert len(traceback.extract_tb(error.tb)) == 2


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(seed_rl, "trian")
    assert {"train", "load", "evaluate"} <= set(seed_rl.__all__)
