"""APPO by itself: PPO's loss on unrolls, with and without V-trace's correction."""

import numpy as np
import pytest

from seed_rl.algorithms.appo import APPO
from seed_rl.algorithms.appo_config import APPOConfig
from seed_rl.algorithms.ppo import PPO
from seed_rl.algorithms.ppo_config import PPOConfig
from tests.algorithms.rollouts import ACTIONS, B, loss_of, maker, moved, rollout

make, make_ppo = (
    maker(kind, config_class, lstm_size=8, lambda_=0.9)
    for kind, config_class in ((APPO, APPOConfig), (PPO, PPOConfig))
)


def test_without_the_correction_it_is_ppos_loss():
    ppo, appo = make_ppo(), make(vtrace=False)
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
