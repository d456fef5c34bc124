"""Spaces of every shape, one line for each: what agents see of it, and which of them train on it.

An agent that trains acts in environments that check its actions, and learns from what it has played. Another
one must refuse the space in one sentence.
"""

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from seed_rl.algorithms import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import Sample
from tests.environments.contract import suite_of
from tests.selection import mostly_slow

INF, B = np.inf, 2
SMALL = {"mlp_sizes": "8", "unroll_length": 2, "lstm_size": 8, "burn_in": 1, "n_steps": 1, "head_size": 8}
ACTOR_CRITICS = ("vtrace", "ppo", "appo", "a2c")
Q_LEARNERS = ("r2d2", "dqn", "pqn")
ALL = (*ACTOR_CRITICS, *Q_LEARNERS, "sac")
# One of each family; all members have the same networks and distributions.
FAMILIES = ("vtrace", "dqn", "sac")
NUMBER = spaces.Discrete(3)
VECTOR = spaces.Box(-1, 1, (3,))
EMPTY, NONE = spaces.Box(0, 1, (0,)), spaces.MultiDiscrete([])


class Anything(gymnasium.Env):
    """Random observations, not above 255; episodes of 3 agent steps; an action must be in its space."""

    def __init__(self, observations=VECTOR, actions=NUMBER):
        self.observation_space, self.action_space = observations, actions
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(0)
        self.time = 0
        return self.observe(self.observation_space), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.time += 1
        return self.observe(self.observation_space), float(self.time), self.time == 3, False, {}

    def observe(self, space):
        if isinstance(space, spaces.Dict):
            return {name: self.observe(child) for name, child in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self.observe(child) for child in space.spaces)
        if isinstance(space, spaces.Box) and space.dtype.kind == "f":
            return np.clip(space.sample(), -255, 255).astype(space.dtype)
        return space.sample()


def make(agent, env, **options):
    """An agent for an environment and a copy of it, or ValueError as at the start of a run; and both."""
    suite = suite_of(env, Anything(env.observation_space, env.action_space))
    envs = SingleEnvironments(suite, EnvironmentConfig(), range(B))
    config_class = registry.config_class(agent)
    known = {leaf.name for leaf in config_class.leaves()} - {"lstm_size" if agent in ("dqn", "sac") else ""}
    options = {name: value for name, value in (SMALL | options).items() if name in known}
    keras.utils.set_random_seed(0)
    return registry.make(agent, config_class.of(**options), envs.spec, B), envs


def play(algorithm, envs, act=None):
    """Acts for as many steps as the agent stores in an unroll."""
    size, act = envs.num_envs, act or algorithm.policy.act
    prev_action, env = envs.spec.action.zeros(size), envs.reset()
    state = first = algorithm.policy.initial_state(size)
    rows = []
    for _ in range(algorithm.unroll.stored_steps):
        env = tf.nest.map_structure(lambda x: tf.constant(x.copy()), env)
        output, state = act(tf.constant(prev_action), env, state, tf.range(size))
        rows.append((tf.constant(prev_action), env, output))
        prev_action = output.action.numpy()
        env, _ = envs.step(prev_action)
    steps = tf.nest.map_structure(lambda *xs: tf.stack(xs), *rows)
    return Sample(*steps, first if algorithm.unroll.keeps_state else (), tf.ones([size]))


def train(algorithm, envs):
    """Plays, updates once by a small step down the gradients, and plays again; all must stay finite."""
    played = play(algorithm, envs)
    sample = algorithm.prepare(played) if algorithm.epochs else played
    with tf.GradientTape(persistent=True) as tape:
        losses = algorithm.losses(sample).by_objective
    for name, objective in algorithm.objectives.items():
        assert np.isfinite(losses[name]).all(), name
        variables = [variable.value for variable in objective.variables]
        gradients = tape.gradient(losses[name], variables)
        pairs = [
            (v, tf.convert_to_tensor(g)) for v, g in zip(variables, gradients, strict=True) if g is not None
        ]
        assert all(np.isfinite(gradient).all() for _, gradient in pairs), name
        assert any(np.any(gradient) for _, gradient in pairs), name
        for variable, gradient in pairs:
            variable.assign_sub(1e-3 * gradient)
    algorithm.observe(played)
    algorithm.after_update(tf.constant(1, tf.int64), tf.constant(0.5))
    again = play(algorithm, envs)
    for array in tf.nest.flatten((again.agent.action, again.agent.info)):
        assert np.isfinite(array).all()


def box(*bounds, dtype=np.float32):
    """A Box of one dimension from (low, high) for each component."""
    low, high = (np.array(side, dtype) for side in zip(*bounds, strict=True))
    return spaces.Box(low, high, dtype=dtype)


def of_four(*values):
    return np.reshape(values, (1, 1, 3, 1))


BIG = float(np.finfo(np.float32).max)
# Space; lowest and highest values as agents see them, None where there are none; the action of a new policy.
ACTIONS = {
    "bounded": (box((-2, 2), (100, 500)), (-2, 100), (2, 500), (0, 300)),
    "unbounded": (box((-INF, INF)), None, None, (0,)),
    "infinite on one side": (
        box((0, INF), (-INF, 5), (100, INF), (-INF, -7), (-9, INF)),
        *((0, -INF, 100, -INF, -9), (INF, 5, INF, -7, INF), (1, 0, 101, -8, 0)),
    ),
    "mixed": (box((100, 500), (-INF, INF), (7, INF)), (100, -INF, 7), (500, INF, INF), (300, 0, 8)),
    "one fixed": (box((-1, 1), (3, 3), (0, 4)), (-1, 3, 0), (1, 3, 4), (0, 3, 2)),
    "fixed and unbounded": (box((-INF, INF), (3, 3)), (-INF, 3), (INF, 3), (0, 3)),
    "huge": (box((-1e38, 1e38)), None, None, (0,)),
    "the largest floats": (box((-BIG, BIG), (0, BIG), (-1, 1)), (-INF, 0, -1), (INF, INF, 1), (0, 1, 0)),
    "wide": (box((-1e6, 1e6)), (-1e6,), (1e6,), (0,)),
    "both bounds huge": (box((1e38, 3e38)), (1e38,), (3e38,), (2e38,)),
    "beyond float32": (box((-1e300, 1e300), (0, 2), dtype=np.float64), (-INF, 0), (INF, 2), (0, 1)),
    "closer than float32": (
        box((1, 1 + 1e-12), (0, 1e-40), (0, 2), dtype=np.float64),
        *((1, 0, 0), (1, 1e-40, 2), (1, 0, 1)),
    ),
    "float16": (box((-INF, INF), (-3, 3), dtype=np.float16), (-INF, -3), (INF, 3), (0, 0)),
    "of no dimension": (spaces.Box(-1, 3, ()), (-1,), (3,), 1),
    "of no dimension, without bounds": (spaces.Box(-INF, INF, ()), None, None, 0),
    "of four": (spaces.Box(-1, 1, (2, 1, 1, 2)), (-1,) * 4, (1,) * 4, np.zeros((2, 1, 1, 2))),
    "of four, mixed": (
        spaces.Box(of_four(1, 0, -INF), of_four(1, 1, INF), dtype=np.float64),
        *((1, 0, -INF), (1, 1, INF), of_four(1, 0.5, 0)),
    ),
}


FAST_ACTIONS = [("vtrace", "mixed"), ("sac", "mixed"), ("sac", "one fixed"), ("vtrace", "of four, mixed")]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_new_policy_acts_in_the_middle_of_each_components_own_bounds(name):
    space, lowest, highest, middle = ACTIONS[name]
    env = Anything(actions=space)
    algorithm, envs = make("vtrace", env)
    for found, wanted in ((envs.spec.action.minimum, lowest), (envs.spec.action.maximum, highest)):
        assert found == wanted if wanted is None else found == tuple(np.float32(wanted))
    step = tf.nest.map_structure(lambda x: tf.constant(x.copy()), envs.reset())
    policy = algorithm.policy
    prev_action = tf.constant(envs.spec.action.zeros(B))
    best = policy.act_greedy(prev_action, step, policy.initial_state(B), tf.range(B))[0].action
    envs.step(best.numpy())
    width = np.nan_to_num(np.float64(space.high) - np.float64(space.low), posinf=1.0).clip(1.0, 1e38)
    assert (np.abs(env.actions[0] - np.float64(middle)) < 0.05 * width).all()


@pytest.mark.parametrize(
    ("agent", "name"), mostly_slow([(a, n) for a in (*ACTOR_CRITICS, "sac") for n in ACTIONS], FAST_ACTIONS)
)
def test_agents_train_on_every_box(agent, name):
    train(*make(agent, Anything(actions=ACTIONS[name][0])))


class Target(Anything):
    """Pays for each component of an action by its distance from a target, in units of its own."""

    BOX = box((100, 500), (-INF, INF), (7, INF), (3, 3))
    TARGET, UNITS = np.array([450, -2, 9, 3]), np.array([100, 1, 1, 1])

    def __init__(self):
        super().__init__(actions=self.BOX)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(-(np.abs(action - self.TARGET) / self.UNITS).sum()), *rest


@pytest.mark.slow
@pytest.mark.parametrize("lstm_size", [0, 16])
def test_all_components_of_a_mixed_box_are_learned(lstm_size):
    num_envs, num_updates = 16, 300
    algorithm, _ = make("vtrace", Target(), unroll_length=8, lstm_size=lstm_size, discounting=0.0)
    suite = Suite(EnvironmentConfig, lambda config, seed: Target())
    envs = SingleEnvironments(suite, EnvironmentConfig(), range(num_envs))
    trainer = Trainer(algorithm, TrainerConfig(batch_size=num_envs, learning_rate=0.005, clip_norm=1.0))
    act = tf.function(algorithm.policy.act, autograph=False)
    for number in range(num_updates):
        trainer.update(play(algorithm, envs, act), number / num_updates)
    best = play(algorithm, envs, algorithm.policy.act_greedy).agent.action.numpy()
    # At first, the distances are 1.5, 2, 1 and 0.
    distances = (np.abs(best - Target.TARGET) / Target.UNITS).mean((0, 1))
    assert distances.max() < 0.4, distances


def image(*shape, dtype=np.uint8, high=255):
    return spaces.Box(0, high, shape, dtype)


FAST_OBSERVATIONS = [("vtrace", "channels first"), ("dqn", "no element beside others"), ("sac", "a nest")]
# Space, and whether it is convolved.
OBSERVATIONS = {
    "unbounded": (spaces.Box(-INF, INF, (3,)), False),
    "mixed": (box((0, INF), (-INF, INF), (2, 2), (-1e38, 1e38)), False),
    "beyond float32": (box((-1e300, 1e300), (-INF, 5), dtype=np.float64), False),
    "float16": (spaces.Box(-1, 1, (2,), np.float16), False),
    "int64": (spaces.Box(-9, 9, (2,), np.int64), False),
    "uint32": (spaces.Box(0, 9, (2,), np.uint32), False),
    "no element beside others": (spaces.Dict(a=EMPTY, b=VECTOR, c=image(3, 0, high=1)), False),
    "uint16": (spaces.Box(0, 9, (2,), np.uint16), False),
    "uint64": (spaces.Box(0, 9, (2,), np.uint64), False),
    "int8 images": (image(40, 40, 2, dtype=np.int8, high=9), True),
    "no dimension": (spaces.Box(-1, 1, ()), False),
    "four dimensions": (spaces.Box(-1, 1, (2, 3, 2, 2)), False),
    "five dimensions": (image(2, 2, 2, 2, 2), False),
    "channels last": (image(40, 36, 3), True),
    "channels first": (image(3, 40, 36), True),
    "one channel first": (image(1, 64, 64), True),
    "stacked frames first": (image(4, 84, 84), True),
    "floats, channels first": (image(3, 40, 40, dtype=np.float32, high=1), True),
    "floats, channels last": (image(40, 40, 3, dtype=np.float64), True),
    "bools, channels first": (image(2, 40, 36, dtype=np.bool_, high=1), True),
    "no channels": (image(40, 36), True),
    "floats without channels": (image(40, 36, dtype=np.float32), False),
    "a stack of images": (image(4, 40, 36, 3), True),
    "a stack of images with their channels first": (image(4, 3, 36, 40), True),
    "a cube": (image(40, 40, 40), True),
    "a small cube": (image(3, 3, 3), False),
    "a small image, channels first": (image(3, 7, 7), False),
    "bits": (spaces.MultiBinary([3, 2]), False),
    "numbers in a table": (spaces.MultiDiscrete([[2, 3], [4, 5]]), False),
    "many values": (spaces.Discrete(60_000), False),
    "text": (spaces.Text(5), False),
    "a nest": (spaces.Tuple([spaces.Dict(a=EMPTY, b=image(3, 40, 40)), spaces.Dict(a=NONE), NUMBER]), True),
}


@pytest.mark.parametrize(
    ("agent", "name"), mostly_slow([(a, n) for a in FAMILIES for n in OBSERVATIONS], FAST_OBSERVATIONS)
)
def test_agents_train_on_every_observation(agent, name):
    space, is_convolved = OBSERVATIONS[name]
    algorithm, envs = make(agent, Anything(space), normalize_observations=True)
    ranks = {len(variable.shape) for each in algorithm.objectives.values() for variable in each.variables}
    assert (4 in ranks) == is_convolved
    train(algorithm, envs)


WHOLE = {
    "one that has a start": spaces.Discrete(3, start=-1),
    "a table": spaces.MultiDiscrete([[3, 2]], start=[[-5, 4]]),
    "bits": spaces.MultiBinary([2, 2]),
}


@pytest.mark.parametrize(
    ("agent", "name"),
    mostly_slow(
        [(a, n) for a in ALL for n in WHOLE], [("vtrace", "a table"), ("pqn", "one that has a start")]
    ),
)
def test_agents_train_on_whole_numbers(agent, name):
    space = WHOLE[name]
    if isinstance(space, spaces.Discrete) or agent in ACTOR_CRITICS:
        train(*make(agent, Anything(actions=space)))
    else:
        refused(agent, Anything(actions=space), "one discrete action")


# Action space, who refuses it, and what the sentence must name.
REFUSED_ACTIONS = [
    (box((-1, 1)), Q_LEARNERS, "one discrete action"),
    (box((3, 3)), ALL, "nothing to choose"),
    (EMPTY, ALL, "nothing to choose"),
    (NONE, ALL, "nothing to choose"),
    (box((0, 1), (INF, INF)), ALL, "Component 1 of"),
    (box((0, 1), (1e300, 1e301), dtype=np.float64), ALL, "Component 1 of"),
    (spaces.Discrete(5_000_000), ALL, "5,000,000 values"),
    (spaces.MultiDiscrete([5, 2_000_000]), ALL, "2,000,005 values"),
    (spaces.Box(0, 5, (2,), np.int32), ALL, "not supported"),
    (spaces.Dict(a=NUMBER), ALL, "not supported"),
    (spaces.Sequence(NUMBER), ALL, "not supported"),
    (None, ALL, "must be one of gymnasium.spaces"),
]


@pytest.mark.parametrize(("space", "agents", "text"), REFUSED_ACTIONS, ids=lambda x: str(x)[:40])
def test_actions_that_agents_refuse(space, agents, text):
    for agent in agents:
        refused(agent, Anything(actions=space), text)


MANY = spaces.Discrete(5_000_000)
# Observation space, and what the sentence must name.
REFUSED_OBSERVATIONS = [
    (MANY, "would .* 5,000,000 numbers"),
    (spaces.Dict(where=spaces.Tuple([VECTOR, MANY])), "'where/1'.* 5,000,000 numbers"),
    (spaces.MultiDiscrete([2, 2_000_000]), "4,000,000 numbers"),
    (spaces.MultiDiscrete(np.full((9, 9, 9), 9_999)), "7,289,271 numbers"),
    (spaces.Discrete(2**40), "1,099,511,627,776 values"),
    (EMPTY, "has no element"),
    (NONE, "has no element"),
    (spaces.Dict(a=spaces.Tuple([EMPTY])), "has no element"),
    (spaces.Sequence(NUMBER), "not supported"),
    (spaces.Dict(a=spaces.Sequence(NUMBER)), "not supported"),
    (spaces.Dict({"a/b": NUMBER}), "not supported"),
    (None, "must be one of gymnasium.spaces"),
]


@pytest.mark.parametrize(("space", "text"), REFUSED_OBSERVATIONS, ids=lambda x: str(x)[:40])
def test_observations_that_agents_refuse(space, text):
    for agent in ALL:
        refused(agent, Anything(space), text)


def refused(agent, env, text):
    with pytest.raises(ValueError, match=text) as error:
        make(agent, env)
    message = str(error.value)
    assert message.endswith(".") and "\n" not in message and len(message) < 500, message


def test_a_network_of_ones_own_may_have_as_many_values_as_it_likes():
    """Embeddings are up to it."""
    algorithm, envs = make("vtrace", Anything(MANY), network="tests.environments.test_spaces:Embedding")
    train(algorithm, envs)


class Embedding(keras.layers.Layer):
    def __init__(self, observation_spec):
        super().__init__()
        self._rows = keras.layers.Embedding(1000, 4)

    def call(self, observation):
        return self._rows(observation % 1000)
