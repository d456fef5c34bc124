"""A learner that stops or dies and is started again: the same actors come back, and the run resumes."""

import signal
import socket

import pytest

pytestmark = pytest.mark.slow


def check_that_others_are_refused(house, learner):
    """A run directory has one learner at a time; also a launcher is refused."""
    own = (*house.small[2:], *house.all_play[1:], f"--logdir={house.logdir}")
    for other in (
        house.learner(*house.all_play, f"--server_address=unix:{house.path}/t"),
        house.start("train", "catch", "ppo", "1", "16", *own),
    ):
        assert other.end() == 2
        assert other.last_line == (
            f"seed_rl: error: The run directory {house.logdir} is in use by process {learner.pid} on host "
            f"{socket.gethostname()}; stop it, or choose another --logdir."
        )
    assert not (house.logdir / "actor_0.log").exists()


def test_actors_outlive_learners_and_end_with_the_training(house):
    learner = house.learner(*house.all_play, "--save_checkpoint_secs=1")
    actors = [house.actor() for _ in range(4)]
    house.wait_for_metrics(lambda line: line["updates"] > 5, learner)
    check_that_others_are_refused(house, learner)
    seen = len(house.metrics())
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner, after=seen)

    learner.signal(signal.SIGTERM)
    assert learner.end() == 143
    assert learner.last_line.startswith("Stopped with a checkpoint: ")
    stopped = house.metrics()
    assert f": {stopped[-1]['env_frames']:,} frames in " in learner.last_line
    assert all(actor.running for actor in actors)

    learner = house.learner(*house.all_play, "--save_checkpoint_secs=1")
    first = house.wait_for_metrics(lambda line: True, learner, after=len(stopped))
    assert "Resuming from " in learner.output
    for name in ("env_frames", "agent_steps", "updates", "episodes", "seconds"):
        assert first[name] >= stopped[-1][name], name
    house.wait_for_metrics(
        lambda line: line["env_frames"] > first["env_frames"] and line["updates"] > first["updates"],
        learner,
        after=len(stopped),
    )

    saved = set(house.logdir.glob("checkpoints/*.index"))
    house.wait_until(
        lambda: set(house.logdir.glob("checkpoints/*.index")) - saved and len(house.metrics()) > len(stopped),
        "a checkpoint by time",
    )
    learner.signal(signal.SIGKILL)
    assert learner.end() == -signal.SIGKILL
    killed = house.metrics()
    assert all(actor.running for actor in actors)

    learner = house.learner(*house.all_play, f"--total_environment_frames={killed[-1]['env_frames'] + 8000}")
    assert learner.end() == 0
    assert "Resuming from " in learner.output
    assert learner.last_line.startswith("Training is complete: ")
    # Progress after the last checkpoint is lost, and nothing else.
    assert stopped[-1]["env_frames"] <= house.metrics()[len(killed)]["env_frames"]
    assert house.metrics()[-1]["env_frames"] >= killed[-1]["env_frames"] + 8000
    assert (house.logdir / "saved_model").is_dir() and not (house.logdir / "learner.lock").exists()
    for actor in actors:
        assert actor.end() == 0
        assert "Traceback" not in actor.output
