"""Games of PettingZoo between sides whose results are known."""

from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from pettingzoo import ParallelEnv

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.environments.suites.pettingzoo import SUITE, PettingZooConfig
from seed_rl.evaluation.agent import PlayedEpisode, PolicySide
from seed_rl.evaluation.load import PlayConfig
from seed_rl.evaluation.matches import play_games, scored, wilson_interval
from seed_rl.ops import draws
from seed_rl.seeds import derived_seed
from seed_rl.types import ACTION_MASK, AgentOutput, ArraySpec, EnvOutput

TIC_TAC_TOE = PettingZooConfig(game="classic.tictactoe_v3")
SPREAD = PettingZooConfig(game="mpe2.simple_spread_v3")


class Prefers:
    """Takes the first allowed cell of a list, else the lowest allowed one; keeps what it was asked."""

    def __init__(self, *cells):
        self.cells, self.asked = [*cells, *range(9)], []

    def __call__(self, env, rows):
        assert len(rows) and not (env.done & env.truncated)[rows].any() and not env.truncated[rows].any()
        self.asked.append(rows.tolist())
        masks = np.unpackbits(env.observation[ACTION_MASK][rows], axis=-1, count=9)
        return np.array([next(cell for cell in self.cells if mask[cell]) for mask in masks])


def played(*sides, config=TIC_TAC_TOE, **settings):
    settings = {"episodes": 4, "num_envs": 4} | settings
    return sorted(play_games(SUITE, config, sides, PlayConfig.of(**settings)))


# The cells that two sides prefer; the returns and agent steps of games 0 and 1, between which they swap.
# Cells 0 1 2, 2 4 6 and others are lines.
TOLD = {
    "the first side wins": ((0, 1, 2), (3, 8, 7), [((1, -1), 5), ((-1, 1), 6)], (4, 0, 0)),
    "the second side wins": ((3, 8, 7), (0, 1, 2), [((-1, 1), 6), ((1, -1), 5)], (0, 0, 4)),
    "who begins wins": ((), (), [((1, -1), 7), ((1, -1), 7)], (2, 0, 2)),
    "draws": ((0, 2, 3, 7, 8), (1, 4, 5, 6), [((0, 0), 9), ((0, 0), 9)], (0, 4, 0)),
}


@pytest.mark.parametrize("num_envs", [1, 2, 4, 7])
@pytest.mark.parametrize(("first", "second", "games", "counts"), TOLD.values(), ids=TOLD)
def test_results_are_known_and_sides_swap_players(first, second, games, counts, num_envs):
    found = played(Prefers(*first), Prefers(*second), num_envs=num_envs)
    assert [(game.returns, game.agent_steps) for game in found] == games * 2
    assert [game.players for game in found] == [(0,), (1,)] * 2
    assert [(game.number, game.seed) for game in found] == [(n, derived_seed(1, n)) for n in range(4)]
    summary = scored(found)
    assert (summary["wins"], summary["draws"], summary["losses"]) == counts
    assert summary["score"] == (counts[0] + counts[1] / 2) / 4


def test_an_odd_number_of_games_and_a_side_for_all_players():
    side = Prefers()
    found = played(side, side, episodes=3)
    assert [game.players for game in found] == [(0, 1)] * 3
    assert [game.episode_return for game in found] == [0.0] * 3
    assert sum(map(len, side.asked)) == sum(game.agent_steps for game in found) == 21


def test_each_side_is_asked_once_a_step_for_its_own_slots():
    first, second = Prefers(0, 1, 2), Prefers(3, 8, 7)
    played(first, second, episodes=2)  # Slots 0 and 1 have game 0; slots 2 and 3 game 1, swapped.
    assert first.asked == [[0], [3], [0], [3], [0], [3]]
    assert second.asked == [[2], [1], [2], [1], [2]]


@pytest.mark.parametrize(("limit", "games"), [(4, 0), (5, 1), (10, 1), (11, 2), (16, 3)])
def test_agent_steps_may_be_limited(limit, games):
    found = played(Prefers(0, 1, 2), Prefers(3, 8, 7), num_envs=2, episodes=9, max_agent_steps=limit)
    assert len(found) == games


@pytest.mark.parametrize("sides", [1, 3, 4])
def test_another_number_of_sides_than_of_players_is_refused(sides):
    with pytest.raises(ValueError, match=r"2 players.*\.$"):
        played(*[Prefers()] * sides)


class Goes:
    """Takes the same action always; keeps the slots that act at the same time."""

    def __init__(self, action):
        self.action, self.asked = action, []

    def __call__(self, env, rows):
        self.asked.append(rows.tolist())
        return np.full(len(rows), self.action)


def test_games_with_a_time_limit_are_the_same_however_many_are_played_at_once():
    """Three players act at the same time, for 25 cycles."""
    results = [
        played(Goes(1), Goes(2), Goes(2), config=SPREAD, episodes=5, num_envs=n, seed=4) for n in (3, 6, 15)
    ]
    assert results[0] == results[1] == results[2]
    assert [game.players for game in results[0]] == [(0,), (1,), (2,), (0,), (1,)]
    assert {game.agent_steps for game in results[0]} == {75}
    assert len({game.returns for game in results[0]}) == 5
    assert played(Goes(1), Goes(2), Goes(2), config=SPREAD, episodes=5, num_envs=3, seed=5) != results[0]


def test_a_side_of_two_players_acts_for_both_in_one_batch():
    one, two = Goes(1), Goes(2)
    played(one, two, two, config=SPREAD, episodes=2, num_envs=6)
    assert one.asked == [[0, 4]] * 25 and two.asked == [[1, 2, 3, 5]] * 25


class Fails(ParallelEnv):
    """Two players get 1 at each of three steps; the step with this number raises, and all later ones do."""

    possible_agents, metadata, steps, raises = ["a", "b"], {"name": "fails"}, 0, {}
    seeds: ClassVar[list[int]] = []

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.left = [*self.possible_agents], 3
        Fails.seeds.append(seed)
        return self.by_player(np.zeros(1, np.float32)), self.by_player({})

    def step(self, actions):
        Fails.steps, self.left = Fails.steps + 1, self.left - 1
        if Fails.steps in self.raises:
            raise OSError("the engine is gone")
        found = [np.zeros(1, np.float32), 1.0, not self.left, False, {"metrics": {"left": self.left}}]
        found = [self.by_player(one) for one in found]
        self.agents = self.agents if self.left else []
        return tuple(found)

    def by_player(self, value):
        return dict.fromkeys(self.agents, value)


@pytest.mark.parametrize(("step", "numbers"), [(1, [1, 2, 3, 4]), (3, [1, 2, 3, 4]), (4, [0, 2, 3, 4])])
def test_another_game_is_played_for_one_that_is_void(monkeypatch, step, numbers):
    monkeypatch.setattr(Fails, "steps", 0)
    monkeypatch.setattr(Fails, "seeds", [])
    monkeypatch.setattr(Fails, "raises", {step})
    config = PettingZooConfig(game=f"{__name__}:Fails")
    found = played(Goes(1), Goes(2), config=config, num_envs=2)
    assert [(game.number, game.returns, game.agent_steps, game.figures) for game in found] == [
        (number, (3.0, 3.0), 6, {"left": 0.0}) for number in numbers
    ]
    assert [(game.seed, game.players) for game in found] == [(derived_seed(1, n), (n % 2,)) for n in numbers]
    assert {game.seed for game in found} <= set(Fails.seeds)


def test_the_games_before_too_many_failures_are_yielded(monkeypatch):
    monkeypatch.setattr(Fails, "steps", 0)
    monkeypatch.setattr(Fails, "raises", range(8, 99))
    config = PettingZooConfig(game=f"{__name__}:Fails")
    found = []
    with pytest.raises(EnvironmentFailedError, match="--max_environment_failures"):
        found.extend(
            iter(play_games(SUITE, config, [Goes(1), Goes(2)], PlayConfig.of(episodes=4, num_envs=2)))
        )
    assert [game.number for game in found] == [0, 1]


class Counts(Policy):
    """Counts in its recurrent state, from the first step of a game; acts by the count and the last action."""

    def initial_state(self, batch_size):
        return {"count": tf.zeros([batch_size], tf.int32)}

    def act(self, prev_action, env, state, env_ids):
        count = tf.where(env.done, 0, state["count"]) + 1
        return AgentOutput(100 * env_ids + 10 * prev_action + count, {}), {"count": count}

    def act_greedy(self, prev_action, env, state, env_ids):
        return AgentOutput(tf.zeros_like(prev_action), {}), state


class Draws(Policy):
    """Acts at random."""

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        return AgentOutput(draws.categorical(tf.zeros([tf.shape(env.done)[0], 1000]))[:, 0], {}), state


ACTION = ArraySpec((), "int32", (0,), (9999,))


def records(*done):
    false = np.zeros(len(done), bool)
    return EnvOutput(np.zeros(len(done), np.float32), np.array(done, bool), false, {"x": np.zeros(len(done))})


def test_memory_moves_where_a_policy_acts_and_nowhere_else():
    side = PolicySide(Counts(), ACTION, 5, greedy=False, seed=1)
    begins, goes_on = records(1, 1, 1), records(0, 0, 0)

    def act(env, *rows):
        return side(env, np.array(rows)).tolist()

    assert act(begins, 0, 2) == [501, 501]
    assert act(goes_on, 0) == [5512]  # 10 times the last action, and the count.
    assert act(goes_on, 0, 2) == [55623, 5512]
    assert act(begins, 1) == [501]
    assert act(records(1, 0, 0), 0, 1, 2) == [10 * 55623 + 501, 5512, 55623]
    assert act(records(0, 0), 1) == [501]  # Of other games, with fewer slots.
    assert side(begins, np.arange(3)).dtype == np.int32


def test_draws_follow_from_the_seed_of_a_side_and_differ_between_sides():
    def actions(seed):
        side = PolicySide(Draws(), ACTION, 0, greedy=False, seed=seed)
        return [side(records(0, 0, 0), np.arange(n)).tolist() for n in (3, 2, 3)]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    assert actions(1)[0] != actions(1)[2]


# Returns, the players of the first side, and its score.
SCORES = [
    ((1.0, -1.0), (0,), 1.0),
    ((1.0, -1.0), (1,), 0.0),
    ((0.0, 0.0), (1,), 0.5),
    ((2.0, 3.0, 3.0), (1,), 0.5),
    ((2.0, 3.0, 3.0), (0,), 0.0),
    ((2.0, 4.0, 3.0), (1,), 1.0),
]


@pytest.mark.parametrize(("returns", "players", "score"), SCORES)
def test_a_win_is_a_higher_return_than_that_of_every_other(returns, players, score):
    own = sum(returns[player] for player in players) / len(players)
    assert scored([PlayedEpisode(0, 0, [], own, {}, returns, players)])["score"] == score


# From Wilson's formula, by hand: the centre is (p + z² / 2n) / (1 + z² / n), with z² = 3.841459.
INTERVALS = [(0.5, 10, 0.236593, 0.763407), (1.0, 10, 0.722467, 1.0), (0.0, 1, 0.0, 0.793451)]


@pytest.mark.parametrize(("share", "count", "low", "high"), INTERVALS)
def test_wilsons_interval(share, count, low, high):
    assert wilson_interval(share, count) == pytest.approx((low, high), abs=1e-6)
