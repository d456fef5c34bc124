"""Gymnasium spaces, wire specs and wire actions."""

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import vector as vectors
from gymnasium.wrappers.utils import RunningMeanStd as Statistics

from seed_rl.environments.actions import action_decoder, action_spec
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.making import suite_spec
from seed_rl.environments.observations import hash_words, observation_leaves, observation_spec
from seed_rl.environments.specs import environment_spec, without_statistics
from seed_rl.environments.suites.classic import SUITE as GYM
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.evaluation.agent import Agent
from seed_rl.types import ArraySpec, flatten_spec
from tests.evaluation.test_agent import Scripted


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


# A space, a wire action, and what the environment gets.
DECODED = {
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
@pytest.mark.parametrize(("space", "wire", "wanted"), DECODED.values(), ids=DECODED)
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


class Far(gymnasium.Env):
    """Shows 1000."""

    observation_space = spaces.Box(-1e4, 1e4, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.full(2, 1000, np.float32), {}

    def step(self, action):
        return np.full(2, 1000, np.float32), 1000.0, False, False, {}


class RunningMeanStd:
    """As copied from Baselines."""


class Own(gymnasium.Wrapper):
    def __init__(self, env, **attributes):
        super().__init__(env)
        self.__dict__.update(attributes)


class Holding(Far):
    """Holds an environment without being a wrapper."""

    def __init__(self, env):
        self.inner = [env]


class Subclass(wrappers.NormalizeObservation):
    def observation(self, observation):
        return super().observation(observation) + 1


def clipped(env):
    return wrappers.TransformObservation(env, lambda x: np.clip(x, -10, 10), env.observation_space)


def vector(env=Far, size=2):
    return SyncVectorEnv([env] * size)


Observed, Rewarded = wrappers.NormalizeObservation, wrappers.NormalizeReward
# The environment's maker, and the flag that the sentence names.
OBSERVATIONS, REWARDS = "normalize_observations", "normalize_rewards"
REFUSED = {
    "below a clip": (lambda: clipped(Observed(Far())), OBSERVATIONS),
    "below others": (lambda: wrappers.TimeLimit(Observed(Far()), 9), OBSERVATIONS),
    "below a vector's others": (
        lambda: vectors.RecordEpisodeStatistics(vectors.NormalizeObservation(vector())),
        OBSERVATIONS,
    ),
    "below a reward's clip": (
        lambda: wrappers.TransformReward(Rewarded(Far()), lambda r: np.clip(r, -10, 10)),
        REWARDS,
    ),
    "a subclass": (lambda: Subclass(Far()), OBSERVATIONS),
    "an own wrapper": (lambda: Own(Far(), seen=Statistics()), OBSERVATIONS),
    "an own wrapper of rewards": (lambda: Own(Far(), reward_rms=Statistics()), REWARDS),
    "Baselines": (lambda: Own(Far(), obs_rms=RunningMeanStd()), OBSERVATIONS),
    "Baselines' returns": (lambda: Own(Far(), ret_rms=RunningMeanStd()), REWARDS),
    "far below": (lambda: Own(wrappers.TimeLimit(Own(Observed(Far())), 9)), OBSERVATIONS),
    "held by no wrapper": (lambda: Holding(Observed(Far())), OBSERVATIONS),
    "in a vector": (lambda: vector(lambda: Observed(Far())), OBSERVATIONS),
    "below a vector's wrapper": (
        lambda: vectors.TransformObservation(vectors.NormalizeObservation(vector()), lambda x: x),
        OBSERVATIONS,
    ),
}


@pytest.mark.parametrize(("make", "flag"), REFUSED.values(), ids=REFUSED)
def test_an_environment_whose_statistics_would_be_lost_is_refused(make, flag):
    with pytest.raises(ValueError, match=rf"keeps running statistics .*--{flag} \(in Python: {flag}=True\)"):
        environment_spec(without_statistics(make()), EnvironmentConfig())


def test_training_and_agents_refuse_it_alike():
    make, flag = REFUSED["below a clip"]
    with pytest.raises(ValueError, match=flag):
        suite_spec(Suite(EnvironmentConfig, lambda config, seed: make()), EnvironmentConfig(), 0)
    with pytest.raises(ValueError, match=flag):
        Agent(Scripted(), make(), EnvironmentConfig(), 0)


LEFT_OUT = {
    "observations": lambda: Observed(Far()),
    "rewards": lambda: Rewarded(Far()),
    "both": lambda: Rewarded(Observed(Far())),
    "above others": lambda: Observed(wrappers.TimeLimit(Far(), 9)),
    "a vector's": lambda: vectors.NormalizeReward(vectors.NormalizeObservation(vector())),
    "none": lambda: wrappers.TimeLimit(Far(), 9),
}


@pytest.mark.parametrize("make", LEFT_OUT.values(), ids=LEFT_OUT)
def test_gymnasiums_own_are_left_out_where_the_network_can_take_their_place(make, capsys):
    env = without_statistics(make())
    spec = environment_spec(env, EnvironmentConfig())
    assert spec.observation == environment_spec(Far(), EnvironmentConfig()).observation
    for observation in (env.reset(seed=0)[0], env.step(env.action_space.sample())[0]):
        assert (observation == 1000).all()
    assert np.all(env.step(env.action_space.sample())[1] == 1000)
    env.close()


def test_fixed_statistics_are_part_of_the_environment():
    fixed = Observed(Far())
    fixed.update_running_mean = False
    env = without_statistics(wrappers.TimeLimit(fixed, 9))
    environment_spec(env, EnvironmentConfig())
    assert env.get_wrapper_attr("obs_rms") is not None


@pytest.mark.parametrize("vectorization", ["none", "sync"])
def test_a_function_is_played_without_them(vectorization, tmp_path):
    (tmp_path / "function").write_bytes(cloudpickle.dumps(lambda: wrappers.NormalizeObservation(Far())))
    config = GymConfig(game=f"pickle:{tmp_path / 'function'}", vectorization=vectorization)
    env = GYM.make(config, 0) if vectorization == "none" else GYM.make_vector(config, [0, 1])
    assert (env.reset(seed=0)[0] == 1000).all()
    env.close()
