import json

import numpy as np
import pytest

from seed_rl.inference.slots import Lease
from seed_rl.learner.figures import RunFigures
from seed_rl.wire.generated import inference_pb2 as pb


def figures(repeats=4, env_frames=0, seconds=0.0, episodes=0, num_training_envs=2, recent=None):
    return RunFigures(repeats, env_frames, seconds, episodes, num_training_envs, recent)


def episode(number, agent_steps=10, env=0):
    return pb.Episode(env=env, episode_return=number, agent_steps=agent_steps)


def lease(is_restart):
    return Lease(0, 1, 0, 1, is_new_run=True, is_restart=is_restart)


def test_no_returns_before_the_first_episode():
    taken = figures().take(0, 0)
    assert "mean_return" not in taken
    assert (taken["episodes"], taken["actor_restarts"], taken["env_frames"]) == (0, 0, 0)
    assert taken["learner_memory_mib"] > 1


def test_means_are_over_the_last_hundred_episodes():
    found = figures()
    found.on_episodes(episode(1000, 1000) for _ in range(50))
    found.on_episodes(episode(n, 2 * n) for n in range(100))
    taken = found.take(0, 0)
    assert taken["mean_return"] == pytest.approx(49.5)
    assert taken["mean_episode_agent_steps"] == pytest.approx(99)
    assert taken["episodes"] == 150
    assert found.take(0, 0)["mean_return"] == pytest.approx(49.5)  # The window outlives the period.


def test_evaluation_is_reported_apart_and_by_its_last_twenty_episodes():
    found = figures()
    found.on_episodes([episode(1, env=1), episode(3, env=0)])
    assert "mean_evaluation_return" not in found.take(0, 0)
    found.on_episodes([episode(1000, env=3)])
    found.on_episodes(episode(n, env=2 + n % 2) for n in range(20))
    taken = found.take(0, 0)
    assert taken["mean_evaluation_return"] == pytest.approx(9.5)
    assert (taken["mean_return"], taken["episodes"]) == (2, 2)


def test_frames_are_agent_steps_times_repeats():
    found = figures(repeats=4)
    assert found.env_frames(25) == 100
    taken = found.take(25, updates=3)
    assert (taken["env_frames"], taken["agent_steps"], taken["updates"]) == (100, 25, 3)


def test_a_resumed_run_goes_on_counting():
    found = figures(repeats=4, env_frames=1000, seconds=3600.0, episodes=20)
    found.on_episodes([episode(1)])
    taken = found.take(5, updates=7)
    assert (taken["env_frames"], taken["agent_steps"], taken["episodes"]) == (1020, 255, 21)
    assert 3600 <= taken["seconds"] < 3700


def test_speed_is_of_the_period_and_of_this_process(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("seed_rl.learner.figures.time.monotonic", lambda: now[0])
    found = figures(repeats=4, env_frames=1_000_000)
    now[0] += 10
    assert found.take(250, 0)["frames_per_second"] == pytest.approx(100.0)
    now[0] += 5
    assert found.take(750, 0)["frames_per_second"] == pytest.approx(400.0)


def test_restarts_are_counted():
    found = figures()
    for is_restart in (False, True, False, True):
        found.on_lease(lease(is_restart))
    assert found.take(0, 0)["actor_restarts"] == 2


def test_a_resumed_run_keeps_the_recent_episodes():
    before = figures(num_training_envs=2)
    before.on_episodes([episode(i, env=i % 3) for i in range(9)])
    after = figures(num_training_envs=2, recent=json.loads(json.dumps(before.recent)))
    assert json.dumps(after.recent) == json.dumps(before.recent)
    got, want = after.take(0, 0), before.take(0, 0)
    for name in ("mean_return", "mean_evaluation_return", "mean_episode_agent_steps"):
        assert got[name] == want[name]


@pytest.mark.parametrize(("num_eval_envs", "window"), [(0, 100), (1, 20)])
def test_the_settled_return_is_of_a_whole_window(num_eval_envs, window):
    run = figures(num_training_envs=1)
    ids = 1 if num_eval_envs else 0
    run.on_episodes([episode(i, env=ids) for i in range(window - 1)])
    assert run.settled_return(num_eval_envs) is None
    run.on_episodes([episode(window, env=ids), episode(window + 1, env=ids)])
    assert run.settled_return(num_eval_envs) == pytest.approx(
        np.mean([episode(i).episode_return for i in [*range(1, window - 1), window, window + 1]])
    )
