"""TensorSpecs of the outputs of environments."""

import tensorflow as tf

from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_spec, pack_like


def env_output_signature(spec: EnvironmentSpec, *leading: int | None) -> EnvOutput:
    """TensorSpecs of an EnvOutput with these leading dimensions."""

    def signature(leaf: ArraySpec) -> tf.TensorSpec:
        return tf.TensorSpec([*leading, *leaf.shape], leaf.dtype)

    scalars = (tf.TensorSpec(leading, dtype) for dtype in (tf.float32, tf.bool, tf.bool))
    leaves = [signature(leaf) for _, leaf in flatten_spec(spec.observation)]
    return EnvOutput(*scalars, pack_like(spec.observation, leaves))
