"""Opponents: members join and are replaced, weaker ones are drawn less, and the pool survives a restart."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.policy import Policy
from seed_rl.devices.publisher import PolicyCopy
from seed_rl.learner.league import League, check_players
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec

SPEC = EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (1,)), num_players=2)


class Constant(Policy):
    """One weight."""

    def __init__(self, value=0.0):
        super().__init__()
        self.weight = tf.Variable(value)

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        raise NotImplementedError


def make_league(size=3, every=10):
    source = Constant()
    return source, League(source, [PolicyCopy(Constant(-1.0), "CPU:0") for _ in range(size)], every, seed=1)


def weight_of(league, number):
    _, policy, acting = league.policy(number)
    with acting():
        return float(policy.weight.numpy())


def join(source, league, *updates):
    for update in updates:
        source.weight.assign(float(update))
        league.updated(update)


def test_copies_join_every_so_many_updates_and_the_oldest_is_replaced():
    source, league = make_league()
    join(source, league, 5, 10, 11, 20, 30)
    assert [weight_of(league, number) for number in (1, 2, 3)] == [10.0, 20.0, 30.0]
    join(source, league, 40)
    assert [weight_of(league, number) for number in (2, 3, 4)] == [20.0, 30.0, 40.0]
    source.weight.assign(99.0)
    assert weight_of(league, 4) == 40.0
    assert {league.draw() for _ in range(500)} == {0, 2, 3, 4}
    assert league.take()["pool_size"] == 3


def test_half_of_the_episodes_are_the_newest_alone_and_members_that_never_win_are_rare():
    source, league = make_league()
    assert {league.draw() for _ in range(50)} == {0}  # The pool is empty.
    join(source, league, 10, 20)
    for _ in range(200):
        league.ended(1, 1.0)
        league.ended(2, 0.0)
    drawn = np.bincount([league.draw() for _ in range(2000)], minlength=3) / 2000
    assert abs(drawn[0] - 0.5) < 0.04 and drawn[1] < 0.01 and abs(drawn[2] - 0.5) < 0.04


def test_ratings_follow_elos_rule_and_a_new_member_has_that_of_the_newest():
    source, league = make_league()
    join(source, league, 10)
    league.ended(1, 1.0)  # Expected 0.5, so the winner gains 8 and the loser loses 8.
    assert league.take()["elo"] == 8.0 and league.take()["elo_above_best_of_pool"] == 16.0
    join(source, league, 20)
    assert league.take()["elo_above_best_of_pool"] == 0.0
    league.ended(1, 0.0)  # Expected 1 / (1 + 10 ** (-16 / 400)).
    assert league.take()["elo"] == pytest.approx(8 - 16 / (1 + 10 ** (-16 / 400)))
    league.ended(0, 0.5)
    for _ in range(3):
        league.ended(2, 1.0)
    league.ended(77, 0.0)  # Replaced long ago.
    metrics = league.take()
    assert metrics["win_rate_against_newest"] == 0.5 and metrics["win_rate_against_pool"] == 0.8


def test_the_pool_is_saved_as_it_is_and_a_new_process_goes_on_with_it(tmp_path):
    source, league = make_league()
    join(source, league, 10, 20)
    league.ended(2, 1.0)
    league.before_save()
    path = tf.train.Checkpoint(league=league.saved).write(str(tmp_path / "ckpt"))
    _, other = make_league()
    tf.train.Checkpoint(league=other.saved).restore(path).expect_partial()
    other.restored()
    assert [weight_of(other, number) for number in (1, 2)] == [10.0, 20.0]
    assert other.take()["elo"] == 8.0
    _, smaller = make_league(size=2)
    tf.train.Checkpoint(league=smaller.saved).restore(path).expect_partial()
    with pytest.raises(ValueError, match=r"--league_size=2 .* use --league_size=3"):
        smaller.restored()


def test_a_policy_of_another_run_always_plays_and_stays_as_it_is():
    source = Constant()
    league = League(source, [PolicyCopy(Constant(4.0), "CPU:0")], None, seed=1)
    join(source, league, 10, 20)
    assert {league.draw() for _ in range(9)} == {1} and weight_of(league, 1) == 4.0
    league.ended(1, 1.0)
    league.ended(1, 0.5)
    assert league.take()["win_rate_against_pool"] == 0.75 and league.take()["pool_size"] == 1


@pytest.mark.parametrize(
    ("settings", "players", "agent", "devices", "sentence"),
    [
        ({"opponents": "past"}, 1, "vtrace", 1, "--opponents=past needs a game of several players"),
        ({"inference": "actor"}, 2, "vtrace", 1, "2 players; leave out --inference=actor"),
        ({"learner_hosts": "a:1,b:1"}, 2, "vtrace", 1, "--learner_hosts"),
        ({}, 2, "r2d2", 1, "without replay"),
        ({}, 2, "dqn", 1, "without replay"),
        ({"num_envs": 4}, 3, "ppo", 1, "make --num_envs=4 a multiple"),
        ({"opponents": "past"}, 2, "ppo", 2, "one of the 2 devices"),
    ],
)
def test_what_players_cannot_train_with_is_refused(settings, players, agent, devices, sentence):
    config = dataclasses.replace(LearnerConfig(num_envs=12), **settings)
    spec = SPEC._replace(num_players=players)
    algorithm = algorithms.make(agent, algorithms.config_class(agent)(), spec, 12)
    with pytest.raises(ValueError, match=sentence):
        check_players(config, spec, algorithm, devices)


@pytest.mark.parametrize("agent", ["vtrace", "ppo", "a2c", "appo", "pqn"])
def test_agents_that_learn_from_queues_and_rollouts_train_players(agent):
    algorithm = algorithms.make(agent, algorithms.config_class(agent)(), SPEC, 12)
    for opponents in ("self", "past", "runs/other"):
        check_players(LearnerConfig(num_envs=12, opponents=opponents), SPEC, algorithm, 1)
