"""Training batches without environments: random steps, and an algorithm's outputs for them."""

import numpy as np
import optree
import tensorflow as tf

from seed_rl.devices.publisher import variables_of
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import EnvOutput, Sample


def random_step(rng, spec, *leading):
    """A step of environments with one array as their observation."""
    observation = rng.normal(3, 2, (*leading, *spec.observation.shape))
    if spec.observation.dtype == "uint8":
        observation = rng.integers(0, 256, observation.shape)
    return EnvOutput(
        rng.normal(size=leading).astype(np.float32),
        rng.random(leading) < 0.2,
        rng.random(leading) < 0.1,
        observation.astype(spec.observation.dtype),
    )


def samples(algorithm, spec, batch_size, number):
    """Batches of NumPy arrays."""
    rng, policy, found = np.random.default_rng(0), algorithm.policy, []
    act = tf.function(policy.act, autograph=False)
    for _ in range(number):
        state = policy.initial_state(batch_size)
        start, steps, prev_action = state, [], spec.action.zeros(batch_size)
        for _ in range(algorithm.unroll.stored_steps):
            env = random_step(rng, spec, batch_size)
            tensors = tf.nest.map_structure(tf.constant, (prev_action, env))
            output, state = act(*tensors, state, tf.range(batch_size))
            steps.append((prev_action, env, optree.tree_map(np.asarray, output)))
            prev_action = output.action.numpy()
        stacked = optree.tree_map(lambda *x: np.stack(x), *steps)
        start = optree.tree_map(np.asarray, start)
        found.append(Sample(*stacked, start, rng.random(batch_size).astype(np.float32)))
    return found


def trained(algorithm, replicas, batches, batch_size):
    """Everything that updates leave behind, by name, and the trainer."""
    config = TrainerConfig(batch_size=batch_size, learning_rate=1e-3, clip_norm=0.5, log_layer_norms=True)
    trainer, found = Trainer(algorithm, config, replicas), {}
    for number, batch in enumerate(batches):
        output = trainer.update(replicas.distribute(batch), number / len(batches))
        found |= {f"{key} {number}": value.numpy() for key, value in output.metrics.items()}
        if output.priority is not None:
            found[f"priority {number}"] = output.priority.numpy()
    for owner in (algorithm, *trainer.optimizers.values()):
        for index, variable in enumerate(variables_of(owner)):
            found[f"{type(owner).__name__} {index}"] = tf.convert_to_tensor(variable).numpy()
    return found, trainer
