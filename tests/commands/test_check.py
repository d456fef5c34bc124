"""`seed_rl check`, and `seed_rl.check`: reports what training would get from an environment."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import seed_rl
from seed_rl.commands.check import main
from tests.environments import broken
from tests.environments.broken import BUGS

ROOT = Path(__file__).parents[2]
BROKEN = "tests.environments.broken:Broken-v0"
INF = np.inf


class Anything(gymnasium.Env):
    """Episodes of 7 agent steps with a reward of 1; refuses actions that are not allowed."""

    observation_space = spaces.Dict(x=spaces.Box(-1, 1, (3,)), seen=spaces.Discrete(5))

    def __init__(self, actions=spaces.Discrete(2), mask=None, length=7):  # noqa: B008
        self.action_space, self.mask, self.length = actions, mask, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), self._info()

    def step(self, action):
        assert self.action_space.contains(action), action
        assert self.mask is None or self.mask[action]
        self.time += 1
        return self.observation_space.sample(), 1.0, self.time == self.length, False, self._info()

    def _info(self):
        return {} if self.mask is None else {"action_mask": np.array(self.mask)}


ACTIONS = {
    "one": spaces.Discrete(3, start=-1),
    "several": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
    "bounded": spaces.Box(np.float32([-2, 100]), np.float32([2, 500])),
    "unbounded": spaces.Box(-INF, INF, (2, 2)),
    "mixed": spaces.Box(np.float32([-INF, 3, -INF]), np.float32([-7, INF, 5])),
    "of no dimension": spaces.Box(-1, 1, ()),
}


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_a_function_is_checked_with_valid_actions(space, capsys):
    seed_rl.check(lambda length: Anything(space, length=length), env_kwargs={"length": 9}, agent_steps=40)
    shown = capsys.readouterr().out
    assert "observation 'x': float32[3]" in shown and "observation 'seen': int32[], 0 to 4" in shown
    assert "40 agent steps: " in shown and "rewards: 1 to 1" in shown and "with a reset up to" in shown
    assert "episodes that ended: 4, mean return 9" in shown and "mask" not in shown


def test_only_allowed_actions_are_taken(capsys):
    seed_rl.check(lambda: Anything(spaces.Discrete(4), [True, False, True, False]))
    assert "action mask: allows 50% to 50% of the values" in capsys.readouterr().out


def test_a_vector_environment_is_checked_by_its_first(capsys):
    seed_rl.check(lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs, "vector_entry_point"))
    assert "observation: float32[4]" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["make", "reset", "step"])
def test_python_gets_the_environments_own_error(method):
    with pytest.raises(KeyError, match="missing") as error:
        seed_rl.check(lambda: broken.Broken("raises", method))
    assert error.traceback[-1].name == "raises"


def test_python_gets_a_sentence_on_what_an_environment_returned():
    def make():
        space = spaces.Box(-1, 1, (2,))
        return gymnasium.wrappers.TransformObservation(Anything(), lambda _: np.zeros(3), space)

    words = r"float64\[3\] for the observation, but its observation space says float32\[2\]"
    with pytest.raises(ValueError, match=rf"reset\(\) returned {words}"):
        seed_rl.check(make)


@pytest.mark.parametrize("method", ["make", "reset", "step"])
def test_the_command_shows_the_line_of_a_bug(method):
    kwargs = json.dumps({"bug": "raises", "method": method})
    command = [sys.executable, "-m", "seed_rl", "check", "gym", f"--game={BROKEN}", f"--env_kwargs={kwargs}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    *_, sentence = done.stderr.splitlines()
    assert done.returncode == 1 and sentence.startswith("seed_rl: error: Environment 0 failed")
    blamed = "step" if method == "step" else "make"
    place = f"broken.py:{broken.place('raises')} in raises"
    assert sentence.endswith(f"{blamed}() raised KeyError: 'missing' ({place}).")
    assert done.stderr.count("Traceback") == 1
    commands = "print('here', method)\nq\n" if method != "raises" else ""
    command, entered = [*command, "--pdb"], f"up\n{commands}"
    done = subprocess.run(command, input=entered, cwd=ROOT, capture_output=True, text=True)
    assert '{}["missing"]' in done.stdout and "self.bug()" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No environment is given"),
        (["gym", "--game=Nothing-v9"], "not a Gymnasium id"),
        (["gym", "--agent_steps=0"], "--agent_steps=0 is too low"),
        (["gym", "ppo"], "'ppo' is one too many"),
    ],
)
def test_a_wrong_flag_gets_one_sentence(arguments, words):
    with pytest.raises(seed_rl.UsageError, match=words):
        main(["seed_rl check", *arguments])


def test_every_bug_ends_the_command_with_1(capsys):
    for bug in set(BUGS) - {"hangs"}:
        kwargs = json.dumps({"bug": bug, "method": "step"})
        assert main(["seed_rl check", "gym", f"--game={BROKEN}", f"--env_kwargs={kwargs}"]) == 1
        assert f"in {bug})." in capsys.readouterr().err


@pytest.mark.parametrize("game", ["classic.tictactoe_v3", "mpe2.simple_spread_v3"])
def test_games_are_checked_with_all_of_their_players(game, capsys):
    pytest.importorskip("mpe2")
    seed_rl.check("pettingzoo", game=game)
    printed = capsys.readouterr().out
    assert "100 agent steps" in printed
    assert "episodes that ended: 0" not in printed


def test_a_function_that_makes_a_game_is_told_how_to_name_it():
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    with pytest.raises(ValueError, match="--environment=pettingzoo --game=module:function"):
        seed_rl.check(rps.parallel_env)
