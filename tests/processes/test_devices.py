"""A real learner names its device, and refuses a CPU where an accelerator is required."""

import re

import pytest


def test_a_learner_that_requires_an_accelerator_refuses_a_cpu(house, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    learner = house.learner("--require_accelerator")
    assert learner.end() == 2
    assert learner.output.startswith("seed_rl: error: --require_accelerator: TensorFlow sees no GPU (")
    assert learner.output.count("\n") == 1
    assert not house.logdir.exists()


@pytest.mark.slow
def test_the_first_line_names_the_device(house):
    learner = house.learner("--total_environment_frames=2000")
    actors = [house.actor(task) for task in range(4)]
    assert learner.end() == 0, learner.output
    assert [actor.end() for actor in actors] == [0] * 4
    first = learner.output.splitlines()[0]
    assert re.fullmatch(r"Training and inference on (CPU:0|GPU:0.*)\.", first)
