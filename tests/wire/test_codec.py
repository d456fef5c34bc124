import numpy as np
import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_like, flatten_spec, pack_like
from seed_rl.wire.codec import ActionCodec, StepCodec

ACTION = ArraySpec((), "int32", (0,), (3,))
OBSERVATIONS = {
    "bare image": ArraySpec((4, 3, 2), "uint8"),
    "bare scalar": ArraySpec((), "float64"),
    "dict": {
        "velocity": ArraySpec((3,), "float32"),
        "camera": {"right": ArraySpec((2, 2), "uint8"), "left": ArraySpec((2, 2), "int16")},
        "alive": ArraySpec((), "bool"),
        "clock": ArraySpec((1,), "int64"),
        "nothing": ArraySpec((0,), "float32"),
    },
}


def codec_of(observation):
    return StepCodec(EnvironmentSpec(observation, ACTION))


def random_step(observation, num_envs, seed=0):
    rng = np.random.default_rng(seed)
    leaves = [
        rng.integers(0, 2 if leaf.dtype == "bool" else 100, (num_envs, *leaf.shape)).astype(leaf.dtype)
        for _, leaf in flatten_spec(observation)
    ]
    ends = rng.integers(0, 3, num_envs)
    reward = rng.normal(size=num_envs).astype(np.float32)
    return EnvOutput(reward, ends == 1, ends == 2, pack_like(observation, leaves))


def assert_same(observation, got, want):
    got_leaves = [*got[:3], *flatten_like(observation, got.observation)]
    want_leaves = [*want[:3], *flatten_like(observation, want.observation)]
    for a, b in zip(got_leaves, want_leaves, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("observation", OBSERVATIONS.values(), ids=OBSERVATIONS)
@pytest.mark.parametrize("num_envs", [1, 5])
def test_steps_come_back_as_they_went(observation, num_envs):
    codec, step = codec_of(observation), random_step(observation, num_envs)
    data = codec.encode(step)
    assert len(data) == num_envs * codec.record_bytes
    codec.check(data, num_envs)
    assert codec.are_valid(np.frombuffer(data, codec.record))
    assert_same(observation, codec.decode(data), step)


def test_record_is_as_the_protocol_says():
    spec = {"b": ArraySpec((2,), "int16"), "a": ArraySpec((), "uint8")}
    step = EnvOutput(
        np.float32([1.5]), np.array([True]), np.array([False]), {"b": np.int16([[1, 2]]), "a": np.uint8([7])}
    )
    # float32 1.5, done, truncated, then the arrays by sorted name; little endian and no padding.
    assert codec_of(spec).encode(step) == b"\x00\x00\xc0\x3f\x01\x00\x07\x01\x00\x02\x00"


FLAGS = "done and truncated must be 0 or 1, and at most one of them 1"


@pytest.mark.parametrize(
    ("field", "bad", "words"),
    [
        ("reward", np.float32(np.nan).tobytes(), "The reward of environment 1 in the message is NaN"),
        ("reward", np.float32(-np.inf).tobytes(), "The reward of environment 1 in the message is NaN"),
        ("observation:velocity", np.float32([0, np.nan, 0]).tobytes(), "The observation of environment 1 in"),
        *(("done", bytes(flags), FLAGS) for flags in [(1, 1), (2, 0), (0, 2), (1, 255), (255, 1)]),
    ],
)
def test_values_that_cannot_be_are_refused(field, bad, words):
    codec = codec_of(OBSERVATIONS["dict"])
    data, (_, offset) = (
        bytearray(codec.encode(random_step(OBSERVATIONS["dict"], 3))),
        codec.record.fields[field],
    )
    begin = codec.record_bytes + offset
    data[begin : begin + len(bad)] = bad
    with pytest.raises(ValueError, match=words):
        codec.check(bytes(data), 3)
    assert not codec.are_valid(np.frombuffer(data, codec.record))


def test_the_fast_check_agrees_with_the_one_that_says_what_is_wrong():
    codec, rng = codec_of(ArraySpec((), "float32")), np.random.default_rng(0)
    values = np.float32([0, 1, np.nan, np.inf])
    found = set()
    for _ in range(300):
        records = np.zeros(2, codec.record)
        records["reward"], records["observation:"] = rng.choice(values, (2, 2), p=[0.5, 0.4, 0.05, 0.05])
        records["done"].view(np.uint8)[:] = rng.choice([0, 1, 2, 255], 2, p=[0.6, 0.3, 0.05, 0.05])
        records["truncated"].view(np.uint8)[:] = rng.choice([0, 1, 2, 255], 2, p=[0.7, 0.2, 0.05, 0.05])
        try:
            codec.check(records.tobytes(), 2)
            is_valid = True
        except ValueError:
            is_valid = False
        assert codec.are_valid(records) == is_valid
        found.add(is_valid)
    assert found == {True, False}


def test_a_step_may_be_idle_only_where_there_are_players():
    observation = ArraySpec((2,), "float32")
    idle = EnvOutput(
        np.zeros(2, np.float32), np.array([True, True]), np.array([True, False]), np.zeros((2, 2), "f4")
    )
    players = StepCodec(EnvironmentSpec(observation, ACTION, num_players=2))
    data = players.encode(idle)
    players.check(data, 2)
    assert players.are_valid(np.frombuffer(data, players.record))
    assert_same(observation, players.decode(data), idle)
    single = codec_of(observation)
    assert not single.are_valid(np.frombuffer(data, single.record))
    with pytest.raises(ValueError, match="done and truncated must be 0 or 1, and at most one of them 1"):
        single.check(data, 2)
    wrong = bytearray(data)
    wrong[5] = 2
    assert not players.are_valid(np.frombuffer(bytes(wrong), players.record))
    with pytest.raises(ValueError, match=r"done and truncated must be 0 or 1\.$"):
        players.check(bytes(wrong), 2)


@pytest.mark.parametrize(
    "spec",
    [ACTION, ArraySpec((2,), "int64", (0, 0), (3, 4)), ArraySpec((3,), "float32", (-1,) * 3, (1,) * 3)],
    ids=["discrete", "multi-discrete", "box"],
)
def test_actions_come_back_as_they_went(spec):
    codec = ActionCodec(spec)
    actions = np.arange(4 * spec.size).reshape(4, *spec.shape).astype(spec.dtype)
    data = codec.encode(actions)
    assert len(data) == 4 * codec.action_bytes
    decoded = codec.decode(data)
    assert decoded.dtype == actions.dtype
    np.testing.assert_array_equal(decoded, actions)


@pytest.mark.parametrize(
    ("spec", "possible", "impossible"),
    [
        (ACTION, [0, 3], [[0, 4], [-1, 0]]),
        (ArraySpec((2,), "int64", (0, 0), (3, 4)), [[3, 4]], [[[4, 0]], [[0, 5]]]),
        (ArraySpec((1,), "float32"), [[1e30]], [[[np.nan]], [[np.inf]]]),
    ],
)
def test_actions_of_no_network_in_order_are_noticed(spec, possible, impossible):
    codec = ActionCodec(spec)
    assert codec.are_possible(np.array(possible, spec.dtype))
    assert not any(codec.are_possible(np.array(actions, spec.dtype)) for actions in impossible)


def test_big_endian_input_is_sent_little_endian():
    assert ActionCodec(ACTION).encode(np.array([1], ">i4")) == b"\x01\0\0\0"
