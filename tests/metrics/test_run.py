import json

import numpy as np
import pytest

from seed_rl.metrics.episodes import FAILURES
from seed_rl.metrics.run import RunMetrics
from seed_rl.wire.generated import inference_pb2 as pb


def metrics(repeats=4, num_training_envs=2, evaluation_window=20, **settings):
    start = dict.fromkeys(("env_frames", "seconds", "episodes"), 0)
    windows = {"num_training_envs": num_training_envs, "evaluation_window": evaluation_window}
    return RunMetrics(repeats, **start | windows | settings)


def saved(run):
    """The recent episodes as a checkpoint has them."""
    return json.loads(json.dumps(run.recent))


def episode(number, agent_steps=10, env=0, **own):
    return pb.Episode(env=env, episode_return=number, agent_steps=agent_steps, figures=own)


def test_means_are_over_the_last_episodes_of_training_and_of_evaluation_also_in_a_resumed_run():
    run = metrics(evaluation_window=2)
    run.on_episodes(episode(1000, 1000, wins=100) for _ in range(50))
    run.on_episodes(episode(n, 2 * n, env=n % 2, is_success=n % 2) for n in range(100))
    assert "mean_evaluation_return" not in run.take(0, 0)
    run.on_episodes(episode(n, env=2 + n % 2, is_success=n > 1) for n in (7, 1, 2))
    means = {"mean_return": 49.5, "mean_episode_agent_steps": 99, "mean_evaluation_return": 1.5}
    means |= {"episode/is_success": 0.5, "evaluation_episode/is_success": 0.5}
    assert run.take(0, 0)["episodes"] == 150
    resumed = metrics(evaluation_window=2, recent=saved(run))
    assert json.dumps(resumed.recent) == json.dumps(run.recent)
    for taken in (run.take(0, 0), resumed.take(0, 0)):  # The windows outlive the period.
        assert {name: taken[name] for name in taken if "mean_" in name or "/" in name} == means


# Returns of evaluation episodes in each period, and the mean that the period reports.
@pytest.mark.parametrize(
    "periods",
    [
        [([1, 2], None), ([3], 2), ([], None), ([10, 20, 30], 20)],
        [([1, 2, 3, 10], 2), ([20], None), ([30, 40], 20)],
        [([1, 2, 3, 4, 5, 6, 7], 5), ([8, 9], 8)],  # Of two points in a period, the later one.
    ],
)
def test_separate_points_share_no_episode_and_are_reported_once(periods):
    found = metrics(evaluation_window=3, has_separate_points=True)
    last = None
    for returns, expected in periods:
        found.on_episodes(episode(value, env=2, goals=value) for value in returns)
        last = last if expected is None else expected
        assert found.glance(0).get("mean_evaluation_return") == found.settled_return(1) == last
        taken = found.take(0, 0)
        assert taken.get("mean_evaluation_return") == taken.get("evaluation_episode/goals") == expected


def test_a_resumed_run_completes_its_separate_point():
    before = metrics(evaluation_window=3, has_separate_points=True)
    before.on_episodes(episode(value, env=2) for value in (1, 2, 3, 10))
    resumed = metrics(evaluation_window=3, has_separate_points=True, recent=saved(before))
    assert resumed.settled_return(1) is None and "mean_evaluation_return" not in resumed.take(0, 0)
    resumed.on_episodes(episode(value, env=2) for value in (20, 30))
    assert resumed.take(0, 0)["mean_evaluation_return"] == 20


def test_a_resumed_run_goes_on_counting_and_its_speed_is_of_the_period(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("seed_rl.metrics.run.time.monotonic", lambda: now[0])
    found = metrics(repeats=4, env_frames=1_000_000, seconds=3600.0, episodes=20)
    found.on_episodes([episode(1)])
    now[0] += 10
    taken = found.take(250, updates=7)
    names = ("env_frames", "agent_steps", "updates", "episodes", "seconds", "frames_per_second")
    assert [taken[name] for name in names] == [1_001_000, 250_250, 7, 21, 3610.0, 100.0]
    now[0] += 5
    assert found.take(750, 0)["frames_per_second"] == pytest.approx(400.0)


def test_a_hostile_actor_fills_neither_memory_nor_the_log(capsys):
    run = metrics()
    for n in range(1000):
        run.on_episodes([episode(0, **{f"metric {100 * n + i}": i for i in range(100)})])
    own = [name for name in run.take(0, 0) if name.startswith("episode/")]
    assert len(own) <= 32 and len(json.dumps(run.recent)) < 100_000
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("num_eval_envs", "window"), [(0, 100), (1, 20), (1, 200)])
def test_the_settled_return_is_of_a_whole_window(num_eval_envs, window):
    run, env = metrics(num_training_envs=1, evaluation_window=window), num_eval_envs
    run.on_episodes(episode(1000 + i, env=env) for i in range(window - 1))
    assert run.settled_return(num_eval_envs) is None
    run.on_episodes(episode(i, env=env) for i in range(window))
    assert run.settled_return(num_eval_envs) == pytest.approx((window - 1) / 2)


@pytest.mark.parametrize(("env", "name"), [(0, "mean_return"), (1, "mean_evaluation_return")])
def test_a_return_that_is_not_finite_does_not_count(env, name):
    run = metrics(num_training_envs=1)
    run.on_episodes(episode(value, env=env) for value in (1, np.nan, np.inf, -np.inf, 3))
    assert run.take(0, 0)[name] == 2


def test_a_checkpoint_with_returns_that_are_not_finite_is_repaired():
    recent = {"training": [[float("nan"), 3], [2.0, 3]], "evaluation": [float("inf"), 4.0]}
    run = metrics(num_training_envs=1, recent=recent)
    assert run.recent == {"training": [(2.0, 3, {})], "evaluation": [(4.0, {})]}
    assert (run.take(0, 0)["mean_return"], run.take(0, 0)["mean_evaluation_return"]) == (2.0, 4.0)


def test_the_first_host_counts_what_the_others_tell():
    first, other = metrics(num_training_envs=2), metrics(num_training_envs=2)
    other.keep_news()
    first.on_episodes([episode(1.0)])
    other.on_episodes([episode(3.0, env=1, wins=3), episode(7.0, env=2), episode(float("nan"))])
    other.on_episodes([episode(1.0, env=5, **{FAILURES: 4})])
    other.on_actor(is_restart=True)
    other.on_refusal()
    first.on_refusal()
    for _ in range(2):  # Reported metrics are not reported again; restarts are the sum so far.
        first.add_news(1, json.loads(json.dumps(other.take_news())))
    taken = first.take(0, 0)
    assert (taken["episodes"], taken["actor_restarts"], taken["environment_failures"]) == (2, 1, 4)
    assert (taken["refused_connections"], taken["episode/wins"]) == (2, 3)
    assert (taken["mean_return"], taken["mean_evaluation_return"]) == (2.0, 4.0)


def test_failures_of_environments_are_added_up_and_are_no_metric_of_an_episode():
    run = metrics()
    for count in (1, 3, float("nan"), float("inf"), -1, 1e300):
        run.on_episodes([episode(1.0, win=1.0, **{FAILURES: count})])
    taken = run.take(0, 0)
    assert taken["environment_failures"] == 4
    assert [name for name in taken if name.startswith("episode/")] == ["episode/win"]
