"""Small networks of every kind that compiling and precision could treat differently."""

import keras

from seed_rl.algorithms import registry
from seed_rl.types import ArraySpec, EnvironmentSpec

ACTION = ArraySpec((), "int32", (0,), (3,))
VECTORS = EnvironmentSpec(ArraySpec((6,), "float32"), ACTION)
IMAGES = EnvironmentSpec(ArraySpec((20, 20), "uint8"), ACTION)

_IMAGE_OPTIONS = {"frame_stack": 4, "torso": "shallow", "lstm_size": 0}
_OFTEN = {"update_target_every_n_step": 2}
_SHORT = {"unroll_length": 4, "burn_in": 2, "n_steps": 2, "head_size": 16}

# By name: algorithm, environment, settings.
CASES = {
    "vtrace-lstm": ("vtrace", VECTORS, {"unroll_length": 4, "lstm_size": 8}),
    "vtrace-frames": ("vtrace", IMAGES, {"unroll_length": 2, **_IMAGE_OPTIONS}),
    "vtrace-normalized": (
        "vtrace",
        VECTORS,
        {"unroll_length": 4, "lstm_size": 0, "normalize_observations": True, "normalize_rewards": True},
    ),
    "dqn-scalar": ("dqn", VECTORS, {"n_steps": 2, "dueling": True, "layer_norm": True, **_OFTEN}),
    "dqn-frames": (
        "dqn",
        IMAGES,
        {**_IMAGE_OPTIONS, "distribution": "categorical", "num_atoms": 7, "dueling": True, "double": True},
    ),
    "r2d2-lstm": ("r2d2", VECTORS, {**_SHORT, "lstm_size": 8, **_OFTEN}),
    "r2d2-frames": ("r2d2", IMAGES, {**_SHORT, **_IMAGE_OPTIONS, "unroll_length": 3}),
}


def make(case, num_envs):
    """The algorithm of a case, with the same weights each time."""
    name, spec, settings = CASES[case]
    keras.utils.set_random_seed(0)
    return registry.make(name, registry.config_class(name).of(**settings), spec, num_envs)
