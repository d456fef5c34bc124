"""Algorithms and transitions for tests of SAC."""

import keras
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.sac.algorithm import SAC
from seed_rl.algorithms.sac.sac_config import SACConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Sample

B = 6
VECTOR, FRAME = ArraySpec((5,), "float32"), ArraySpec((10, 9), "uint8")
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 2.0))
UNBOUNDED = ArraySpec((2,), "float32")
DISCRETE = ArraySpec((), "int32", (0,), (3,))
ACTIONS = [BOX, UNBOUNDED, DISCRETE]


def make(action=BOX, observation=VECTOR, num_envs=B, **options):
    """An algorithm whose networks all differ, with weights that make their outputs depend on all inputs."""
    keras.utils.set_random_seed(0)
    options = {"mlp_sizes": "16,8", "discounting": 0.9, "initial_temperature": 0.3} | options
    algorithm = SAC(SACConfig.of(**options), EnvironmentSpec(observation, action), num_envs)
    for i, network in enumerate((algorithm._actor, algorithm._critics, algorithm._targets)):
        for j, variable in enumerate(network.trainable_variables):
            noise = tf.random.stateless_normal(variable.shape, [i, j])
            variable.assign(noise * (0.1 if variable.name == "bias" else 1.5 / variable.shape[-2] ** 0.5))
    return algorithm


def random_sample(action=BOX, observation=VECTOR, steps=2, seed=0, **flags):
    """Transitions with random steps before them; `done` and `truncated` may be given, bool `[steps, B]`."""
    rng, shape = np.random.default_rng(seed), (steps, B)
    frames = rng.normal(size=(*shape, *observation.shape)) * (100 if observation is FRAME else 1)
    done, truncated = (flags.get(name, np.zeros(shape, bool)) for name in ("done", "truncated"))
    env = EnvOutput(
        (3 * rng.normal(size=shape)).astype(np.float32),
        done,
        truncated,
        (np.abs(frames) if observation is FRAME else frames).astype(observation.dtype),
    )
    if action.is_discrete:
        actions = rng.integers(0, 4, (2, *shape)).astype(np.int32)
    else:
        actions = rng.uniform(1.0, 2.0, (2, *shape, *action.shape)).astype(np.float32)
    weight = np.ones(B, np.float32)
    sample = Sample(actions[0], env, AgentOutput(actions[1], {}), (), weight)
    return tf.nest.map_structure(tf.constant, sample)
