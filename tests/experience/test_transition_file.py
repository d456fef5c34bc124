"""Replay of transitions comes back from a file as it was saved, and nothing else does."""

import numpy as np
import pytest

from seed_rl.types import AgentOutput, EnvOutput
from tests.experience.slow_transitions import assert_is, drawn, make


def saved(path, **settings):
    """A replay that has been written to a file, and its streams."""
    replay, streams = make(checkpoint_replay=True, **settings)
    streams.play(30)
    random = np.random.default_rng(0)
    for _ in range(10):
        replay.update_priorities(replay.sample().handle, 9 * random.random(8))
    replay.save(str(path))
    return replay, streams


@pytest.mark.parametrize("exponent", [0.0, 0.5])
@pytest.mark.parametrize("num_steps", [30, 12])
def test_a_restart_goes_on_with_the_same_transitions(tmp_path, exponent, num_steps):
    """From rings that have wrapped or are partly empty; all streams are interrupted."""
    path = tmp_path / "replay.bin"
    first, streams = make(checkpoint_replay=True, priority_exponent=exponent)
    streams.play(num_steps)
    batch = first.sample()
    first.update_priorities(batch.handle, np.linspace(2, 9, 8))
    first.save(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["replay.bin"]

    second, again = make(checkpoint_replay=True, priority_exponent=exponent, path=path)
    assert second.figures().items() < first.figures().items()  # The ratio is measured from zero.
    again.steps = streams.steps
    indices = np.arange(60)
    np.testing.assert_array_equal(second._draws.get(indices), first._draws.get(indices))
    assert second._draws.highest == first._draws.highest == (9.0 if exponent else 1.0)
    for env_id in range(3):
        again.reset(env_id)
    again.play(2)  # Too few for a transition of the new streams.
    expected = again.transitions(capacity=20)
    assert len(second) == len(expected)
    again.play(6)
    expected = again.transitions(capacity=20)
    assert drawn(second, 150).keys() == expected
    sample, _, handle = second.sample()
    for column, key in enumerate(zip(*map(np.ndarray.tolist, handle), strict=True)):
        assert_is(sample, column, again.transition(*key))


def test_a_restored_replay_need_not_be_filled_again(tmp_path):
    path = tmp_path / "replay.bin"
    saved(path)
    settings = {"replay_buffer_min_size": 40, "replay_ratio": 3.0}
    replay, streams = make(checkpoint_replay=True, path=path, **settings)
    assert not replay.batch_ready()
    streams.play(5)  # Six transitions.
    assert replay.batch_ready()


def test_versions_of_a_learner_that_went_on_after_the_checkpoint_count_from_the_restart(tmp_path):
    path = tmp_path / "replay.bin"
    first, streams = make(checkpoint_replay=True)
    for version in range(20):
        streams.advance(range(3), version)
    first.save(str(path))
    assert max(first.sample().policy_version.max() for _ in range(20)) > 5
    second, again = make(checkpoint_replay=True, path=path, updates=5)
    again.advance(range(3), version=5)
    assert max(second.sample().policy_version.max() for _ in range(20)) == 5


@pytest.mark.parametrize(
    ("other", "words"),
    [
        *((other, r"other transitions \(.*move it away") for other in ({"n": 2}, {"burn_in": 1})),
        ({"replay_buffer_size": 90}, r"other transitions \(.*move it away"),
        ({"num_envs": 4}, "of 3 environments, not of 4; resume with as many"),
        ({"replay_max_bytes": 2000}, r"--replay_buffer_size=60 transitions take .*; lower it, or raise"),
    ],
)
def test_a_replay_of_other_settings_is_refused(tmp_path, other, words):
    saved(tmp_path / "replay.bin")
    with pytest.raises(ValueError, match=words):
        make(checkpoint_replay=True, path=tmp_path / "replay.bin", **other)


def test_a_replay_of_other_observations_is_refused_at_the_first_step(tmp_path):
    saved(tmp_path / "replay.bin")
    replay, _ = make(checkpoint_replay=True, path=tmp_path / "replay.bin")
    zeros = np.zeros(1, np.int32)
    step = zeros, EnvOutput(zeros, zeros, zeros, np.zeros((1, 3, 2), np.uint8)), AgentOutput(zeros, {})
    with pytest.raises(ValueError, match=r"other observations or actions .*move its file away"):
        replay.append(np.zeros(1, np.int64), step, np.zeros(0, np.int64), (), 0)
