"""Gymnasium spaces, wire specs and wire actions."""

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.actions import action_decoder, action_spec
from seed_rl.environments.specs import (
    hash_words,
    observation_leaves,
    observation_spec,
)
from seed_rl.types import ArraySpec, flatten_spec


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (spaces.Box(0, 255, (4, 6), np.uint8), ArraySpec((4, 6), "uint8")),
        (spaces.Box(-np.inf, np.inf, (3,), np.float64), ArraySpec((3,), "float32")),
        (spaces.Box(-1, 1, (), np.float16), ArraySpec((), "float16")),
        (spaces.Text(20), ArraySpec((16,), "int32", (0,) * 16, (999,) * 16)),
        (spaces.Box(0, 1, (), np.bool_), ArraySpec((), "bool")),
        (spaces.Box(0, 1, (3, 3), np.bool_), ArraySpec((2,), "uint8", bits=(3, 3))),
        (spaces.Discrete(5, start=2), ArraySpec((), "int32", (0,), (4,))),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), ArraySpec((2, 2), "int32", (0,) * 4, (1, 2, 3, 4))),
        (spaces.MultiBinary(3), ArraySpec((3,), "int8", (0,) * 3, (1,) * 3)),
    ],
)
def test_observation_arrays(space, spec):
    assert observation_spec(space) == spec
    assert [(leaf.name, leaf.path, leaf.spec) for leaf in observation_leaves(space)] == [("", (), spec)]


def test_observation_nests():
    box, number = spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(3)
    space = spaces.Dict(z=box, a=spaces.Tuple([number, spaces.Dict(x=box)]))
    box_spec, number_spec = observation_spec(box), observation_spec(number)
    assert observation_spec(space) == {"a": {"0": number_spec, "1": {"x": box_spec}}, "z": box_spec}
    leaves = observation_leaves(space)
    assert [leaf.path for leaf in leaves] == [("a", 0), ("a", 1, "x"), ("z",)]
    assert [(leaf.name, leaf.spec) for leaf in leaves] == flatten_spec(observation_spec(space))


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (spaces.Discrete(4, start=-1), ArraySpec((), "int32", (0,), (3,))),
        (spaces.MultiDiscrete([3, 2]), ArraySpec((2,), "int32", (0, 0), (2, 1))),
        (spaces.MultiDiscrete([[3], [2]]), ArraySpec((2,), "int32", (0, 0), (2, 1))),
        (spaces.MultiBinary([2, 1]), ArraySpec((2,), "int32", (0, 0), (1, 1))),
        (spaces.Box(-2, 2, (1, 2), np.float64), ArraySpec((1, 2), "float32", (-2, -2), (2, 2))),
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), ArraySpec((2,), "float32")),
        (spaces.Box(0, np.inf, (2,), np.float32), ArraySpec((2,), "float32", (0, 0), (np.inf, np.inf))),
    ],
)
def test_actions(space, spec):
    assert action_spec(space) == spec


@pytest.mark.parametrize(
    ("space", "wire", "expected"),
    [
        (spaces.Discrete(4, start=-1), np.int32(0), -1),
        (spaces.Discrete(4, start=-1), np.int32(3), 2),
        (spaces.MultiDiscrete([3, 2], start=[5, -5]), np.array([2, 1], np.int32), [7, -4]),
        (spaces.MultiDiscrete([[3], [2]]), np.array([2, 1], np.int32), [[2], [1]]),
        (spaces.MultiBinary([2, 1]), np.array([0, 1], np.int32), [[0], [1]]),
        (spaces.Box(-2, 2, (2,), np.float64), np.array([-2, 1.5], np.float32), [-2, 1.5]),
        (spaces.Box(-2, 2, (2,), np.float32), np.array([-3, 9], np.float32), [-2, 2]),
    ],
)
def test_decoded_actions_are_in_the_space(space, wire, expected):
    (action,) = action_decoder(space)(wire[np.newaxis])
    np.testing.assert_array_equal(action, expected)
    assert space.contains(action)


@pytest.mark.parametrize(
    ("space", "wire"),
    [
        (spaces.Discrete(4, start=1), np.int32(4)),
        (spaces.Discrete(4), np.int32(-1)),
        (spaces.MultiDiscrete([3, 2]), np.array([0, 2], np.int32)),
        (spaces.MultiBinary(2), np.array([0, -1], np.int32)),
    ],
)
def test_integer_actions_out_of_range_are_refused(space, wire):
    with pytest.raises(ValueError, match="out of range"):
        action_decoder(space)(np.stack([np.zeros_like(wire), wire]))


def test_box_actions_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        action_decoder(spaces.Box(-1, 1, (2,)))(np.array([[0, np.nan]], np.float32))


def test_words():
    assert hash_words("").tolist() == [0] * 16
    # The same in every process and version.
    assert hash_words("pick the red hat").tolist() == [859, 274, 346, 229] + [0] * 12
    np.testing.assert_array_equal(hash_words("Pick the RED hat."), hash_words(" pick, the red  hat"))
    assert hash_words("red")[0] == hash_words("the red")[1]
    many = hash_words(" ".join(f"word{n}" for n in range(40)))
    assert many.shape == (16,) and (many > 0).all()
    numbers = {int(hash_words(f"word{n}")[0]) for n in range(5000)}
    assert min(numbers) == 1 and max(numbers) == 999
    assert len(numbers) > 950
