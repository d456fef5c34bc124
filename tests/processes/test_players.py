"""Whole runs of games for several players: turns, opponents, resuming, and an actor over gRPC."""

import json

import pytest

pytestmark = pytest.mark.slow

GAME = ("--environment=pettingzoo", "--game=classic.tictactoe_v3")
SMALL = ("--batch_size=4", "--unroll_length=8", "--log_period_secs=0.25", "--intra_op_threads=1")


@pytest.mark.parametrize(
    ("agent", "flags"),
    [
        ("ppo", ("--opponents=past", "--league_every=5", "--league_size=2", "--lstm_size=8")),
        ("vtrace", ("--opponents=past", "--league_every=5", "--lstm_size=8")),
        ("vtrace", ("--synchronous",)),
        ("pqn", ()),
    ],
)
def test_a_run_is_complete_and_plays_against_itself(house, agent, flags):
    args = ("pettingzoo", agent, "2", "8", "--game=classic.tictactoe_v3", "--total_environment_frames=6000")
    run = house.start("train", *args, *SMALL, f"--logdir={house.logdir}", *flags)
    assert run.end() == 0, run.output
    last = house.metrics()[-1]
    assert last["mean_return"] == 0.0 and 2.5 <= last["mean_episode_agent_steps"] <= 4.5
    assert last.get("pool_size", 0) == (2 if "--league_size=2" in flags else last.get("pool_size", 0))
    evaluation = house.start("evaluate", house.logdir, f"--against={house.logdir}", "--episodes=11")
    assert evaluation.end() == 0, evaluation.output


def test_the_pool_survives_a_learner_and_its_actors_go_on(house):
    flags = (*GAME, *SMALL, "--num_envs=8", "--opponents=past", "--league_every=10")
    learner = house.learner(*flags, "--agent=vtrace")
    actors = [house.actor(*GAME, "--env_batch_size=4", f"--transport={t}") for t in ("grpc", "shared_memory")]
    before = house.wait_for_metrics(lambda line: line.get("pool_size", 0) >= 2, learner)
    learner.signal(15)
    assert learner.end() == 143, learner.output
    last = house.metrics()[-1]
    count = len(house.metrics())
    resumed = house.learner(*flags, "--agent=vtrace")
    first = house.wait_for_metrics(lambda line: "pool_size" in line, resumed, after=count)
    assert first["pool_size"] >= last.get("pool_size", before["pool_size"]) >= 2
    house.wait_for_progress(resumed)
    assert all(actor.running for actor in actors), [actor.output for actor in actors]


def test_a_run_learns_against_another_and_reports_its_win_rate(house):
    flags = (*GAME, *SMALL, "--num_envs=4", "--agent=ppo")
    learner, actor = (
        house.learner(*flags, "--total_environment_frames=500"),
        house.actor(*GAME, "--env_batch_size=4"),
    )
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output
    other = house.path / "other"
    second = house.learner(
        *flags, "--total_environment_frames=500", f"--opponents={house.logdir}", f"--logdir={other}"
    )
    actor = house.actor(*GAME, "--env_batch_size=4")
    assert (second.end(), actor.end()) == (0, 0), second.output + actor.output
    lines = [json.loads(line) for line in (other / "metrics.jsonl").read_text().splitlines()]
    assert 0 <= lines[-1]["win_rate_against_pool"] <= 1


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--agent=r2d2", "--burn_in=2"), "2 players; choose an agent without replay"),
        (("--agent=vtrace", "--inference=actor"), "2 players; leave out --inference=actor"),
        (("--agent=vtrace", "--num_envs=3"), "make --num_envs=3 a multiple"),
        (("--agent=vtrace", "--opponents=nowhere"), "nowhere is not a directory"),
    ],
)
def test_what_players_cannot_do_ends_the_learner_with_a_sentence(house, flags, sentence):
    learner = house.learner(*GAME, "--num_envs=4", *flags)
    assert learner.end() == 2 and sentence in learner.last_line, learner.output


def test_an_actor_without_whole_games_is_refused(house):
    learner = house.learner(*GAME, "--num_envs=6", "--agent=vtrace")
    actor = house.actor(*GAME, "--env_batch_size=6", "--num_env_groups=2")
    assert actor.end() == 2 and "whole games of 2 players" in actor.last_line, actor.output
    assert learner.running
