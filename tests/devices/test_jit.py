"""An update that XLA compiles is the update that it is without."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.devices.replicas import Replicas
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from tests.devices import recorded
from tests.devices.networks import CASES, make
from tests.training import slopes

B, UPDATES = 4, 4


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_compiled_update_is_the_same(case):
    """Weights, target network, optimizer, statistics, priorities and metrics; compiled once."""
    batches = recorded.samples(make(case, B), CASES[case][1], B, UPDATES)
    (expected, _), (found, trainer) = (
        recorded.trained(make(case, B), Replicas(jit=jit), batches, B) for jit in (False, True)
    )
    assert expected.keys() == found.keys() and len(found) > 40
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)
    assert trainer._update.experimental_get_tracing_count() == 1


def test_it_is_compiled_as_a_whole():
    """Otherwise the test above would compare a function with itself."""
    algorithm, replicas = slopes.Slope(), Replicas(jit=True)
    trainer, batch = Trainer(algorithm, TrainerConfig(), replicas), slopes.sample(1.0)
    trainer.update(batch, 0.0)
    graph = trainer._update.get_concrete_function(batch, tf.constant(0.0), tf.constant(0.0)).graph
    attributes = [op.node_def.attr.get("_XlaMustCompile") for op in graph.get_operations()]
    compiled = [attribute for attribute in attributes if attribute is not None and attribute.b]
    assert len(compiled) == 1
    assert algorithm.weights.numpy().tolist() < [1.0, 1.0]


def test_several_training_devices_are_refused():
    with pytest.raises(ValueError, match=r"^--jit trains on one device, not on GPU:0, GPU:1; choose one"):
        Replicas(("GPU:0", "GPU:1"), jit=True)
