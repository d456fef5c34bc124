"""Replay of transitions: against lists in plain Python, its proportions, its file, and who waits for whom."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.experience.base import ClosedError, Setup, UnrollConfig
from seed_rl.experience.transitions import Handle
from seed_rl.networks.stacking import FrameStack
from seed_rl.types import AgentOutput, ArraySpec, EnvOutput
from tests.experience.slow_transitions import CONFIG, SHAPE, assert_genuine, drawn, keys, make
from tests.threads import Thread
from tests.waiting import wait_until


@pytest.mark.parametrize("exponent", [0.0, 0.5])
@pytest.mark.parametrize(("n", "burn_in"), [(1, 0), (1, 3), (3, 0), (3, 3), (5, 1)])
def test_against_lists_in_plain_python(n, burn_in, exponent):
    """Environments at different speeds, episodes that end and are cut short, resets, and rings that wrap."""
    replay, streams = make(n, burn_in, priority_exponent=exponent)
    random = np.random.default_rng(1)
    for turn in range(250):
        if random.random() < 0.08:
            streams.reset(int(random.integers(3)))
        env_ids = random.permutation(np.flatnonzero(random.random(3) < [1.0, 0.7, 0.2])).tolist()
        if not env_ids:
            continue
        completed = streams.advance(env_ids, version=turn)
        expected = streams.transitions(capacity=20)
        newest = {env_id: len(streams.steps[env_id]) - 1 - n for env_id in env_ids}
        assert completed == [env_id for env_id in env_ids if (env_id, newest[env_id]) in expected]
        streams.store.hand_over(completed)
        assert len(replay) == len(expected)
        if expected and turn % 5 == 4:
            batch = replay.sample()
            assert batch.sample.initial_state == ()
            assert batch.sample.agent.info == {}
            assert_genuine(batch, streams)
            assert set(keys(batch)) <= expected
            for versions, key in zip(batch.policy_version.T.tolist(), keys(batch), strict=True):
                assert versions == [step.version for step in streams.transition(*key)]
    assert drawn(replay, 200).keys() == streams.transitions(capacity=20)
    assert len(streams.steps[0]) > 200


@pytest.mark.parametrize("num_frames", [2, 4])
def test_frame_stacks_are_those_of_one_pass_over_the_stream(num_frames):
    """Each transition's stacks, rebuilt from its history, also at the start of a stream and of episodes."""
    replay, streams = make(n=3, burn_in=num_frames - 1, batch_size=64)
    for _ in range(6):
        streams.play(12)
        streams.reset(1)
    stack = FrameStack(num_frames, ArraySpec(SHAPE, "uint8"))
    whole = []
    for steps in streams.steps:
        # Inference starts a new stack with a new stream.
        begins = [t == 0 or steps[t - 1].stream != step.stream for t, step in enumerate(steps)]
        done = np.array([[step.env.done or begin] for step, begin in zip(steps, begins, strict=True)])
        frames = np.stack([step.env.observation["image"] for step in steps])[:, np.newaxis]
        whole.append(stack.stack(tf.constant(frames), tf.constant(done), stack.initial_state(1))[0].numpy())
    sample, _, handle = replay.sample()
    frames, done = tf.constant(sample.env.observation["image"]), tf.constant(sample.env.done)
    stacks = stack.stack(frames, done, stack.initial_state(64))[0].numpy()[num_frames - 1 :]
    for column, (env_id, first) in enumerate(zip(*handle, strict=True)):
        np.testing.assert_array_equal(stacks[:, column], whole[env_id][first : first + 4, 0])


def test_what_is_new_has_the_highest_priority_so_far():
    """Exponent 0.5: 100 counts like 10, 4 like 2, and what is new like the highest there ever was."""
    replay, streams = make(n=1, burn_in=0, num_envs=1, batch_size=1, truncation=0, replay_buffer_size=4)
    streams.play(5)
    assert set(drawn(replay, 100).values()) <= set(range(10, 45))  # Equal at first.
    replay.update_priorities(Handle(np.zeros(4, int), np.arange(4)), np.array([0.0, 1.0, 100.0, 4.0]))
    streams.play(1)  # Number 4 takes the place of number 0.
    shares = np.array([1, 10, 2, 10]) / 23
    counts = drawn(replay, 4000)
    found = [counts[0, first] for first in (1, 2, 3, 4)]
    # Chi-square with 3 degrees of freedom: 16.3 is passed by chance once in a thousand.
    assert ((found - 4000 * shares) ** 2 / (4000 * shares)).sum() < 16.3


def test_priorities_of_what_has_been_overwritten_are_ignored():
    replay, streams = make(n=1, burn_in=0, num_envs=2, truncation=0, replay_buffer_size=8)
    streams.play(5)
    streams.play(2, [1])  # Environment 1 has numbers 2 to 5, and environment 0 numbers 0 to 3.
    before = replay._draws.get(np.arange(8))
    replay.update_priorities(Handle(np.array([1, 1]), np.array([0, 1])), np.array([9.0, 9.0]))
    np.testing.assert_array_equal(replay._draws.get(np.arange(8)), before)
    replay.update_priorities(Handle(np.array([1, 1, 0]), np.array([1, 2, 0])), np.array([25.0, 9.0, 16.0]))
    counts = drawn(replay, 2000)
    assert counts[1, 2] / counts[0, 1] == pytest.approx(3, rel=0.2)
    assert counts[0, 0] / counts[0, 1] == pytest.approx(4, rel=0.2)
    assert counts[1, 5] / counts[0, 1] == pytest.approx(1, rel=0.2)


def test_without_an_exponent_all_are_drawn_equally_often():
    """Also where rings are full to different degrees; chi-square with 29 degrees of freedom."""
    replay, streams = make(n=2, burn_in=0, truncation=0, priority_exponent=0.0)
    streams.play(40, [0])
    streams.play(7, [1])
    streams.play(7, [2])
    replay.update_priorities(Handle(np.zeros(1, int), np.array([30])), np.array([1e9]))  # Ignored.
    counts = np.array(list(drawn(replay, 1000).values()))
    assert len(counts) == len(replay) == 20 + 5 + 5
    expected = 8000 / 30
    assert ((counts - expected) ** 2 / expected).sum() < 58.3  # By chance once in a thousand.
    np.testing.assert_array_equal(replay.sample().sample.weight, np.ones(8, np.float32))


@pytest.mark.parametrize("faster", ["inference", "training"])
def test_the_faster_side_waits_and_the_ratio_is_held(faster):
    """Twelve environments complete twelve transitions at once, more than there is room for."""
    replay, streams = make(num_envs=12, batch_size=4, replay_buffer_size=120, replay_ratio=2.0)
    if faster == "inference":
        other = Thread(streams.play, 10_000)
        for _ in range(200):
            replay.sample()
        wait_until(other.is_waiting, "inference that waits")
    else:
        other = Thread(lambda: [replay.sample() for _ in range(10_000)])
        streams.play(60)
        wait_until(other.is_waiting, "training that waits")
    figures = replay.figures()
    replay.close()
    assert other.finished()
    assert isinstance(other.error, ClosedError)
    assert figures["replay_ratio"] == pytest.approx(2.0, rel=0.05)
    assert 0 < figures["replay_size"] <= 120


def test_inference_does_not_wait_where_nothing_can_be_drawn():
    """All transitions were interrupted and overwritten, so training cannot catch up."""
    replay, streams = make(n=4, burn_in=0, num_envs=1, replay_buffer_size=5, replay_ratio=1e6)
    streams.play(5)
    for _ in range(3):
        streams.reset(0)
        streams.play(3)
    assert len(replay) == 0
    assert not replay.batch_ready()
    replay._limiter.inserted(1)
    handing_over = Thread(streams.store.hand_over, [0])
    assert handing_over.finished()
    assert handing_over.error is None


def test_threads_get_whole_transitions():
    """Two threads store, one draws, and every draw is of one environment's consecutive steps."""
    replay, streams = make(num_envs=4, replay_buffer_size=40, truncation=0)
    threads = [Thread(streams.play, 300, env_ids) for env_ids in ([0, 1], [2, 3])]
    wait_until(lambda: len(replay) > 0, "a transition")
    batches = []
    while any(thread.is_alive() for thread in threads) or len(batches) < 20:
        batches.append(replay.sample())
    for thread in threads:
        assert thread.finished()
        assert thread.error is None
    for batch in batches[:: max(1, len(batches) // 50)]:  # Most were overwritten after they were drawn.
        assert_genuine(batch, streams)


def test_the_same_seed_draws_the_same():
    """As a synchronous run does: one by one what a step completed, and batches in between."""
    outcomes = []
    for _ in range(2):
        replay, streams = make(replay_ratio=2.0, batch_size=4)
        random, found = np.random.default_rng(0), []
        for _ in range(30):
            for completed in streams.advance([0, 1, 2]):
                streams.store.hand_over([completed])
                while replay.batch_ready():
                    batch = replay.sample()
                    replay.update_priorities(batch.handle, random.random(4))
                    found.append((keys(batch), batch.sample.weight.tolist()))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) > 20


def test_figures_count_the_memory_in_use():
    replay, streams = make(
        n=1, burn_in=0, num_envs=2, truncation=0, replay_buffer_size=20, priority_exponent=0
    )
    assert replay.figures() == {"replay_size": 0, "replay_mib": pytest.approx(20 / 2**20)}
    step = 4 + 4 + 1 + 1 + 4 + 6 + 8 + 12  # Actions, reward, flags, observation, version and history.
    streams.play(4)
    assert replay.figures()["replay_mib"] * 2**20 == 20 + 8 * step
    streams.play(40)
    assert replay.figures()["replay_mib"] * 2**20 == 20 + 22 * step
    assert replay.figures()["replay_size"] == 20


def test_a_host_keeps_as_much_of_the_few_environments_that_it_serves(tmp_path):
    path = tmp_path / "replay.bin"
    settings = {"num_envs": 6, "num_served": 2, "truncation": 0, "checkpoint_replay": True}
    replay, streams = make(replay_max_bytes=8000, **settings)
    streams.play(60, [1, 4])
    assert len(replay) == 60
    assert drawn(replay, 150).keys() == streams.transitions(capacity=30)
    replay.save(str(path))
    assert len(make(path=path, **settings)[0]) == 60
    with pytest.raises(ValueError, match="of 2 environments, not of 3"):
        make(path=path, **{**settings, "num_served": 3})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replay_max_bytes": 2**60}, r"--replay_max_bytes=.* is more than this machine's memory"),
        ({"replay_buffer_size": 10}, r"--replay_buffer_size=10 leaves 4 .* make it at least 18\.$"),
        (
            {"replay_buffer_min_size": 61},
            "so training would never start; lower the first or raise the second",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)


def test_too_many_transitions_for_the_memory_are_refused_at_the_first_step():
    replay, streams = make(replay_buffer_size=10_000, replay_max_bytes=300_000)
    with pytest.raises(
        ValueError, match=r"size=10000 transitions take 0.000\d+ GiB, .* raise --replay_max_bytes"
    ):
        streams.play(1)
    assert replay.figures()["replay_size"] == 0


@pytest.mark.parametrize(
    "unroll", [UnrollConfig(3, period=1, stagger=False), UnrollConfig(3, keeps_state=False)]
)
def test_unrolls_that_are_no_transitions_are_refused(unroll):
    with pytest.raises(ValueError, match=r"needs keeps_state=False|cuts no transitions"):
        CONFIG.make(Setup(2, unroll, 2))


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
    assert_genuine(second.sample(), again)


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
