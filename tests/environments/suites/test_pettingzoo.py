"""Games of PettingZoo and MPE2, with values worked out by hand."""

import pickle
import sys

import numpy as np
import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("mpe2")

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.base import Info
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import examine, make_batch, suite_spec
from seed_rl.environments.suites.pettingzoo import SUITE, PettingZooConfig, names
from seed_rl.types import ArraySpec

TIC_TAC_TOE = PettingZooConfig(game="classic.tictactoe_v3")
EPISODE = Info.PLAYER_EPISODE


def board(own, others):
    """What a player of tic-tac-toe sees; squares are counted down the columns."""
    found = np.zeros((9, 2), np.int8)
    found[list(own), 0], found[list(others), 1] = 1, 1
    return found.reshape(3, 3, 2).tolist()


def test_every_record_of_a_game_of_tic_tac_toe():
    batch = make_batch(SUITE, TIC_TAC_TOE, [1, 2])
    assert batch.spec.num_players == 2
    records, infos = [batch.reset([1, 2])], []

    def record(output, slot):
        mask = np.unpackbits(output.observation["action_mask"][slot], count=9)
        ends = bool(output.done[slot]), bool(output.truncated[slot])
        if ends == (True, True):
            return float(output.reward[slot]), "idle"
        free = np.flatnonzero(mask).tolist()
        return float(output.reward[slot]), *ends, output.observation["observation"][slot].tolist(), free

    def both(output):
        return [record(output, slot) for slot in range(2)]

    records = [both(batch.reset([1, 2]))]
    for square in (0, 3, 1, 4, 2, 8, 0):
        output, found = batch.step(np.full(2, square, np.int32))
        records.append(both(output))
        infos.append(found)
    idle, everything = (0.0, "idle"), list(range(9))
    assert records == [
        [(0.0, True, False, board([], []), everything), idle],
        [idle, (0.0, True, False, board([], [0]), [1, 2, 3, 4, 5, 6, 7, 8])],
        [(0.0, False, False, board([0], [3]), [1, 2, 4, 5, 6, 7, 8]), idle],
        [idle, (0.0, False, False, board([3], [0, 1]), [2, 4, 5, 6, 7, 8])],
        [(0.0, False, False, board([0, 1], [3, 4]), [2, 5, 6, 7, 8]), idle],
        # The first column wins: the winner begins the next game, in which the loser learns of it later.
        [(1.0, True, False, board([], []), everything), idle],
        [idle, (-1.0, True, False, board([], [8]), [0, 1, 2, 3, 4, 5, 6, 7])],
        [(0.0, False, False, board([8], [0]), [1, 2, 3, 4, 5, 6, 7]), idle],
    ]
    assert infos == [[{}, {}]] * 4 + [[{EPISODE: (1.0, 3)}, {EPISODE: (-1.0, 2)}]] + [[{}, {}]] * 2


def test_a_forbidden_action_ends_a_game_with_the_games_own_penalty():
    batch = make_batch(SUITE, TIC_TAC_TOE, [1, 2])
    batch.reset()
    batch.step(np.zeros(2, np.int32))
    output, infos = batch.step(np.zeros(2, np.int32))
    assert [info[EPISODE] for info in infos] == [(0.0, 1), (-1.0, 1)]
    assert (output.done.tolist(), output.truncated.tolist()) == ([True, True], [False, True])


def spread_reward(seen):
    """The reward of simple_spread by what its first player sees, if nobody collides.

    Half of it is minus the sum of the landmarks' distances to the nearest of the three players.
    """
    landmarks, others = seen[4:10].reshape(3, 2), seen[10:14].reshape(2, 2)
    players = np.vstack([np.zeros(2), others])
    distances = np.linalg.norm(landmarks[:, None] - players[None], axis=-1)
    assert min(np.linalg.norm(a - b) for a, b in ((players[0], players[1]), (players[0], players[2]))) > 0.3
    return -0.5 * distances.min(axis=1).sum()


def test_simple_spread_is_truncated_and_pays_what_is_seen():
    config = PettingZooConfig(env_kwargs='{"max_cycles": 3}', player_id=True)
    batch = make_batch(SUITE, config, [1, 2, 3])
    assert batch.spec.observation == {
        "observation": ArraySpec((18,), "float32"),
        "player_id": ArraySpec((3,), "float32"),
    }
    output = batch.reset([4, 5, 6])
    assert output.done.all() and not output.truncated.any()
    np.testing.assert_array_equal(output.observation["player_id"], np.eye(3))
    first, total = output.observation["observation"].copy(), 0.0
    for number in (1, 2, 3):
        output, infos = batch.step(np.zeros(3, np.int32))
        reward = spread_reward(output.observation["observation"][0])
        np.testing.assert_allclose(output.reward, reward, rtol=1e-4)
        assert (output.done.any(), output.truncated.tolist()) == (False, [number == 3] * 3)
        total += reward
    for info in infos:
        assert info[EPISODE] == (pytest.approx(total, rel=1e-4), 3)
    output, infos = batch.step(np.zeros(3, np.int32))
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    assert infos == [{}] * 3
    assert not np.array_equal(output.observation["observation"], first)


@pytest.mark.parametrize("game", ["mpe2.simple_spread_v3", "classic.connect_four_v3", "classic.rps_v2"])
def test_equal_seeds_play_equal_games_whatever_is_sent_for_idle_players(game):
    config = PettingZooConfig(game=game)
    size = 2 * suite_spec(SUITE, config, 0).num_players
    batches = [make_batch(SUITE, config, list(range(size))) for _ in range(2)]
    rng, steps = np.random.default_rng(0), []
    outputs = [batch.reset(list(range(size))) for batch in batches]
    for _ in range(60):
        idle = outputs[0].done & outputs[0].truncated
        assert not idle.reshape(2, -1).all(axis=1).any()
        actions = rng.integers(3, size=size).astype(np.int32)
        pairs = zip(batches, (actions, np.where(idle, -7, actions)), strict=True)
        found = [batch.step(one.astype(np.int32)) for batch, one in pairs]
        outputs, infos = zip(*found, strict=True)
        np.testing.assert_equal(outputs[0], outputs[1])
        assert infos[0] == infos[1]
        steps += [info for info in infos[0] if EPISODE in info]
    assert len(steps) >= size


def test_the_actor_reports_the_episodes_that_games_give():
    batch = make_batch(SUITE, TIC_TAC_TOE, [1, 2])
    statistics = EpisodeStatistics(2, 2)
    batch.reset()
    reported = [statistics.update(*batch.step(np.full(2, square, np.int32))) for square in (0, 3, 1, 4, 2)]
    assert reported[:-1] == [[]] * 4
    assert [(e.env, e.episode_return, e.agent_steps) for e in reported[-1]] == [(0, 1.0, 3), (1, -1.0, 2)]


MODULE = """
from pettingzoo.classic.rps.rps import parallel_env as game
def env(): raise AssertionError("the parallel one is asked for")
parallel_env, number = game, 3
"""


def test_functions_of_other_modules_and_in_files(tmp_path, monkeypatch):
    (tmp_path / "own_games.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert suite_spec(SUITE, PettingZooConfig(game="own_games:game"), 0).num_players == 2
    from pettingzoo.classic import tictactoe_v3

    (tmp_path / "file").write_bytes(pickle.dumps(tictactoe_v3.env))
    assert suite_spec(SUITE, PettingZooConfig(game=f"pickle:{tmp_path}/file"), 0).num_players == 2
    with pytest.raises(ValueError, match="own_games:number names no function of the module own_games"):
        suite_spec(SUITE, PettingZooConfig(game="own_games:number"), 0)
    del sys.modules["own_games"]


@pytest.mark.parametrize("game", ["classic.tictactoe_v3", "pettingzoo.classic.tictactoe_v3"])
def test_facts_about_a_game(game):
    found = examine(SUITE, PettingZooConfig(game=game), 1, FailureConfig())
    assert (found.name, found.is_vector, found.spec.num_players) == ("tictactoe_v3", False, 2)
    observation, action = found.spaces()
    assert observation["action_mask"].shape == (action.n,) == (9,)
    assert "classic.tictactoe_v3" in names() and "mpe2.simple_spread_v3" in names()


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        (
            {"game": "classic.tictacto_v3"},
            ValueError,
            "nearest are: classic.tictactoe_v3",
        ),
        (
            {"game": "own"},
            ValueError,
            "another module is --game=own:parallel_env, for instance",
        ),
        ({"game": "absent:env"}, ValueError, "names the module absent, which is neither"),
        ({"game": "pickle:absent"}, ValueError, "cannot be read"),
        ({"game": "classic.rps_v2", "env_kwargs": '{"size": 3}'}, ValueError, "does not take .*'size'"),
        ({"game": "mpe2.simple_tag_v3"}, ValueError, r"adversary_0 is Box.* that of agent_0 is Box"),
        (
            {"random_start_steps": 3},
            ValueError,
            "--random_start_steps=3 is not possible with several",
        ),
        (
            {"num_action_repeats": 2},
            ValueError,
            "--num_action_repeats=2 is not possible with several",
        ),
    ],
)
def test_settings_that_are_refused(settings, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        suite_spec(SUITE, PettingZooConfig(**settings), 0)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(ImportError, match=r"package that is not installed; run: .*\[pettingzoo\]"):
        suite_spec(SUITE, TIC_TAC_TOE, 0)


def test_only_functions_of_other_modules_are_code_that_needs_trust():
    named = {
        game: PettingZooConfig.named_code({"game": game})
        for game in ("classic.rps_v2", "own:env", "pickle:x")
    }
    assert named == {"classic.rps_v2": [], "own:env": ["game"], "pickle:x": ["game"]}
