"""APPO by itself: PPO's loss on unrolls, with and without V-trace's correction."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.appo import APPO
from seed_rl.algorithms.appo_config import APPOConfig
from seed_rl.algorithms.ppo import PPO
from seed_rl.algorithms.ppo_config import PPOConfig
from tests.algorithms.objectives import loss_of, variables_of
from tests.algorithms.rollouts import ACTIONS, DISCRETE, B, T, rollout, spec

OPTIONS = {"unroll_length": T, "lstm_size": 8, "frame_stack": 4, "mlp_sizes": "16", "lambda_": 0.9}


def make(action=DISCRETE, kind=APPO, config=APPOConfig, **options):
    keras.utils.set_random_seed(0)
    return kind(config.of(**OPTIONS | options), spec(action), B)


def moved(algorithm):
    """Another policy than the one that has acted."""
    for variable in variables_of(algorithm):
        variable.assign_add(0.1 * tf.random.stateless_normal(variable.shape, [1, 2]))
    return algorithm


def test_without_the_correction_it_is_ppos_loss():
    ppo, appo = make(kind=PPO, config=PPOConfig), make(vtrace=False)
    sample = rollout(ppo)
    prepared = ppo.prepare(sample)
    np.testing.assert_allclose(
        loss_of(moved(appo), sample), loss_of(moved(ppo), prepared), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_both_estimates_agree_as_long_as_the_policy_has_not_moved(action):
    """With lambda 1, V-trace's targets are the returns, and so are the generalized estimates'."""
    losses = []
    for vtrace in (True, False):
        algorithm = make(action, vtrace=vtrace, lambda_=1.0)
        losses.append(loss_of(algorithm, rollout(algorithm, action)))
    np.testing.assert_allclose(*losses, rtol=1e-3, atol=1e-4)


def test_the_correction_matters_once_it_has():
    sample = rollout(make())
    with_correction, without = (loss_of(moved(make(vtrace=v)), sample).numpy() for v in (True, False))
    assert np.abs(with_correction - without).max() > 1e-3
    assert with_correction.shape == (B,)
