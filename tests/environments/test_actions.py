"""Actions as environments get them: what `space.sample()` gives; the next space is one more line."""

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.actions import action_decoder, action_spec

# A space, a wire action, and what the environment gets.
SPACES = {
    "Discrete": (spaces.Discrete(3), 2, 2),
    "Discrete with a start": (spaces.Discrete(3, start=-1), 0, -1),
    "a wide Discrete that starts low": (spaces.Discrete(200, start=-100), 199, 99),
    "MultiDiscrete": (spaces.MultiDiscrete([3, 2]), [2, 1], [2, 1]),
    "a table": (spaces.MultiDiscrete([[3, 2]], dtype=np.int32, start=[[-5, 4]]), [2, 1], [[-3, 5]]),
    "one number": (spaces.MultiDiscrete([4]), [3], [3]),
    "MultiBinary": (spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
    "a table of bits": (spaces.MultiBinary([2, 1]), [1, 0], [[1], [0]]),
    "Box": (spaces.Box(-1, 1, (2,)), [0.5, 9], [0.5, 1]),
    "Box of no dimension": (spaces.Box(-1, 1, ()), 0.5, 0.5),
    "Box of float64": (spaces.Box(-1, 1, (1, 2), np.float64), [[0.5, -9]], [[0.5, -1]]),
    "Box of float16": (spaces.Box(-np.inf, np.inf, (1,), np.float16), [1e38], [65504]),
}


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("space", "wire", "wanted"), SPACES.values(), ids=SPACES)
def test_an_environment_gets_actions_like_those_that_its_space_samples(space, wire, wanted, size):
    sample = space.sample()
    sent = np.array([wire] * size, action_spec(space).dtype)
    before = sent.copy()
    actions = action_decoder(space)(sent)
    assert len(actions) == size
    for action in actions:
        assert type(action) is type(sample)
        assert (action.dtype, action.shape) == (sample.dtype, sample.shape)
        assert space.contains(action)
        np.testing.assert_array_equal(action, wanted)
        if isinstance(action, np.ndarray):
            assert action.flags.owndata and action.flags.writeable
            action *= 0  # As some environments do; it must change nothing else.
    np.testing.assert_array_equal(sent, before)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8])
def test_numbers_of_a_discrete_space_have_its_dtype(dtype):
    try:
        space = spaces.Discrete(100, dtype=dtype)
    except TypeError:
        pytest.skip("this Gymnasium has int64 only")
    (action,) = action_decoder(space)(np.array([99], np.int32))
    assert type(action) is dtype and action == 99


@pytest.mark.parametrize(
    ("space", "wire", "word"),
    [
        (spaces.Discrete(4, start=1), np.int32(4), "out of range"),
        (spaces.Discrete(4), np.int32(-1), "out of range"),
        (spaces.MultiDiscrete([3, 2]), np.array([0, 2], np.int32), "out of range"),
        (spaces.MultiBinary(2), np.array([0, -1], np.int32), "out of range"),
        (spaces.Box(-1, 1, (2,)), np.array([0, np.nan], np.float32), "not finite"),
    ],
)
def test_actions_outside_of_the_space_are_refused(space, wire, word):
    with pytest.raises(ValueError, match=word):
        action_decoder(space)(np.stack([np.zeros_like(wire), wire]))
