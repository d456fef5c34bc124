"""Observations that are finite and make the network overflow: the fault of one stream, not of the run."""

import dataclasses
import time

import numpy as np
import optree
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.dqn import DQN
from seed_rl.algorithms.dqn_config import DQNConfig
from seed_rl.algorithms.r2d2 import R2D2
from seed_rl.algorithms.r2d2_config import R2D2Config
from seed_rl.algorithms.vtrace import VTrace
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.serving.request import BadStep, Request
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Sample
from seed_rl.wire.codec import StepCodec
from tests.inference.test_core import World
from tests.selection import mostly_slow

LENGTH, GROUP, NUM_GROUPS = 3, 2, 3
SPEC = EnvironmentSpec(ArraySpec((4,), "float32"), ArraySpec((), "int32", (0,), (2,)))


def vtrace(**settings):
    tf.keras.utils.set_random_seed(1)
    return VTrace(VTraceConfig.of(unroll_length=LENGTH, **settings), SPEC, GROUP * NUM_GROUPS)


def r2d2(**settings):
    tf.keras.utils.set_random_seed(1)
    config = R2D2Config.of(unroll_length=LENGTH, burn_in=0, n_steps=2, num_eval_envs=1, **settings)
    return R2D2(config, SPEC, GROUP * NUM_GROUPS)


def dqn(**settings):
    tf.keras.utils.set_random_seed(1)
    config = DQNConfig.of(n_steps=LENGTH, num_eval_envs=1, exploration="noisy", **settings)
    return DQN(config, SPEC, GROUP * NUM_GROUPS)


ALGORITHMS = {
    "vtrace": lambda: vtrace(lstm_size=0),
    "vtrace-lstm": lambda: vtrace(lstm_size=8),
    "vtrace-normalized": lambda: vtrace(lstm_size=0, normalize_observations=True),
    "r2d2": lambda: r2d2(lstm_size=8),
    "dqn": dqn,
    "dqn-atoms": lambda: dqn(distribution="categorical"),
    "dqn-quantiles": lambda: dqn(distribution="quantile"),
}


@pytest.fixture(params=mostly_slow(list(ALGORITHMS), ["vtrace", "r2d2"]))
def algorithm(request):
    return ALGORITHMS[request.param]()


class Groups(World):
    """Groups of environments that see small random numbers in front of a core."""

    def __init__(self, algorithm):
        unroll = dataclasses.replace(algorithm.unroll, keeps_state=True)  # This store keeps it.
        num_eval_envs, sizes = algorithm.num_eval_envs, [GROUP] * NUM_GROUPS
        store = UnrollStore(sum(sizes) - num_eval_envs, unroll, lambda unrolls: None)
        super().__init__(sizes, LENGTH, 0, num_eval_envs, store, algorithm.policy, SPEC)
        self._random, self._is_first = np.random.default_rng(0), [True] * NUM_GROUPS

    def rejoin(self, group, is_new_actor=False):
        super().rejoin(group, is_new_actor)
        self._is_first[group] = True

    def request(self, group, scale=1.0, rows=slice(None)):
        """A step; the observations of the environments `rows` of the group are of this scale."""
        observation = self._random.uniform(0.5, 1.0, (GROUP, 4)).astype(np.float32)
        observation[rows] *= np.float32(scale)
        done = np.full(GROUP, self._is_first[group])
        self._is_first[group] = False
        env = EnvOutput(np.zeros(GROUP, np.float32), done, np.zeros(GROUP, bool), observation)
        return Request(self._leases[group], StepCodec(SPEC).encode(env), time.monotonic())

    def step(self, *groups):
        """The unrolls that good steps of these groups complete."""
        answers, unrolls = self.core.process([self.request(group) for group in groups])
        assert not any(isinstance(answer, BadStep) for answer in answers)
        return unrolls


def is_finite(nest):
    return all(np.isfinite(leaf).all() for leaf in optree.tree_leaves(nest))


def states(core):
    """The recurrent states in the table, `[num_envs, ...]`."""
    return [variable.numpy() for variable in tf.nest.flatten(core._table._states)]


def test_only_the_stream_that_overflows_is_refused(algorithm):
    groups = Groups(algorithm)
    groups.step(0, 1, 2)
    before = states(groups.core)
    bad = groups.request(1, scale=3e38, rows=[1])
    answers, unrolls = groups.core.process([groups.request(0), bad, groups.request(2)])
    assert answers[1] == BadStep(
        "The observations or rewards of these environments make the network overflow: 3. Check them, and "
        "scale them down in the environment."
    )
    assert [len(answers[0]), len(answers[2])] == [4 * GROUP, 4 * GROUP]
    assert unrolls == []
    for now, old in zip(states(groups.core), before, strict=True):
        np.testing.assert_array_equal(now[2:4], np.zeros_like(now[2:4]))
        assert (now[[0, 1, 4, 5]] != old[[0, 1, 4, 5]]).any()
        assert np.isfinite(now).all()


def test_the_others_unrolls_are_whole_and_the_refused_ones_begin_again(algorithm):
    groups, unrolls = Groups(algorithm), []
    groups.step(0, 1, 2)
    groups.core.process([groups.request(1, scale=3e38), groups.request(0), groups.request(2)])
    groups.rejoin(1)
    for _ in range(4 * LENGTH):
        unrolls += groups.step(2, 1, 0)
    num_training = GROUP * NUM_GROUPS - algorithm.num_eval_envs
    assert sorted({unroll.env_id for unroll in unrolls}) == list(range(num_training))
    for unroll in unrolls:
        assert is_finite(unroll)
        assert (np.abs(unroll.env.observation) <= 1.0).all()
    assert groups.core.agent_steps == num_training * (2 + 4 * LENGTH) - GROUP


def test_when_all_overflow_all_are_refused_and_the_run_goes_on(algorithm):
    groups = Groups(algorithm)
    answers, _ = groups.core.process([groups.request(group, scale=3e38) for group in range(NUM_GROUPS)])
    named = [answer.sentence.split("overflow: ")[1].split(".")[0] for answer in answers]
    assert named == ["0, 1", "2, 3", "4, 5"]
    assert groups.core.agent_steps == 0
    for group in range(NUM_GROUPS):
        groups.rejoin(group)
    groups.step(0, 1, 2)


@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_a_policy_that_has_diverged_ends_inference_with_its_own_error(algorithm, value):
    groups = Groups(algorithm)
    for variable in algorithm.objectives[LOSS].variables:
        variable.assign(np.full(variable.shape, value))
    with pytest.raises(FloatingPointError, match="no longer finite; lower --learning_rate"):
        groups.core.process([groups.request(0), groups.request(1)])


@pytest.mark.parametrize(
    "settings", mostly_slow([{}, {"normalize_observations": True}, {"lstm_size": 8}], [{}])
)
def test_what_is_answered_can_be_trained_on(settings):
    algorithm = vtrace(**{"lstm_size": 0, **settings})
    groups, trainer = Groups(algorithm), Trainer(algorithm, TrainerConfig(batch_size=2))
    refused = []
    for scale in (1.0, 1e7, 1e9, 1e14, 1e16, 1e19, 1e30, 1e36, 1e38):
        unrolls = []
        groups.rejoin(1)
        for _ in range(LENGTH + 1):
            answers, new = groups.core.process([groups.request(0), groups.request(1, scale)])
            unrolls += new
            if isinstance(answers[1], BadStep):
                refused.append(scale)
                groups.rejoin(1)
        sample = optree.tree_map(tf.constant, stack(unrolls))
        output = trainer.update(sample, 0.0)
        assert np.isfinite(output.metrics["gradient_norm"].numpy())
        assert all(np.isfinite(variable.numpy()).all() for variable in algorithm.objectives[LOSS].variables)
        answer, _ = algorithm.policy.act(*example(algorithm.policy))
        assert np.isfinite(answer.info["baseline"].numpy()).all()
    assert {1e16, 1e38} <= set(refused)
    assert 1.0 not in refused


def stack(unrolls):
    """A batch of these unrolls."""
    steps = [(unroll.prev_action, unroll.env, unroll.agent) for unroll in unrolls]
    prev_action, env, agent = optree.tree_map(lambda *x: np.stack(x, 1), *steps)
    state = optree.tree_map(lambda *x: np.stack(x), *(unroll.initial_state for unroll in unrolls))
    return Sample(prev_action, env, agent, state, np.ones(len(unrolls), np.float32))


def example(policy):
    """Arguments of `Policy.act` for one environment."""
    flag = tf.zeros([1], tf.bool)
    env = EnvOutput(tf.zeros([1]), flag, flag, tf.ones([1, 4]))
    return tf.zeros([1], tf.int32), env, policy.initial_state(1), tf.zeros([1], tf.int32)
