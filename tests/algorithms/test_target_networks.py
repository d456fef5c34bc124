"""Updates of the target network, and the environments that train, for DQN and R2D2 alike."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import EnvironmentSpec
from tests.algorithms import test_dqn as dqn
from tests.algorithms import test_r2d2 as r2d2
from tests.algorithms.q_learning import ACTION, VECTOR
from tests.selection import mostly_slow


def equal(xs, ys):
    return all(np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("agent", mostly_slow([dqn, r2d2], [dqn]))
def test_the_trainer_moves_the_target_at_every_nth_update_and_only_then(agent):
    algorithm = agent.make(update_target_every_n_step=3)
    trainer = Trainer(algorithm, TrainerConfig(batch_size=agent.B, clip_norm=80.0))
    sample = agent.random_sample(algorithm)
    for update in range(1, 8):
        before = [v.numpy() for v in algorithm._target.trainable_variables]
        output = trainer.update(sample, 0.0)
        after = algorithm._target.trainable_variables
        assert not equal(before, algorithm._online.trainable_variables)
        assert equal(after, algorithm._online.trainable_variables) == (update % 3 == 0)
        assert equal(after, before) == (update % 3 != 0)
    assert output.priority.shape == (agent.B,)
    assert all(np.isfinite(value).all() for value in output.metrics.values())


def test_the_target_may_follow_slowly():
    algorithm = dqn.make(update_target_every_n_step=1, target_update_rate=0.1)
    before = [v.numpy() for v in algorithm._target.trainable_variables]
    Trainer(algorithm, TrainerConfig(batch_size=dqn.B)).update(dqn.random_sample(algorithm), 0.0)
    online, after = algorithm._online.trainable_variables, algorithm._target.trainable_variables
    for old, goal, new in zip(before, online, after, strict=True):
        np.testing.assert_allclose(new, old + 0.1 * (goal.numpy() - old), rtol=1e-4, atol=1e-6)
        assert (new.numpy() != old).any()


@pytest.mark.parametrize("name", ["dqn", "r2d2"])
def test_the_target_starts_equal(name):
    spec = EnvironmentSpec(VECTOR, ACTION)
    algorithm = registry.make(name, registry.config_class(name)(), spec, 2)
    assert equal(algorithm._online.variables, algorithm._target.variables)


@pytest.mark.parametrize("agent", [dqn, r2d2])
def test_both_networks_see_observations_by_the_same_statistics(agent):
    algorithm = agent.make(normalize_observations=True)
    sample = agent.random_sample(algorithm)
    networks = (algorithm._online, algorithm._target)
    weights = [v.numpy() for network in networks for v in network.trainable_variables]
    tf.function(algorithm.observe, autograph=False)(sample)
    online, target = (network.non_trainable_variables for network in networks)
    assert len(online) == 3 and equal(online, target)
    assert float(target[0]) == algorithm.unroll.stored_steps * agent.B
    assert equal(weights, [v for network in networks for v in network.trainable_variables])
