"""Exports the policy as a SavedModel that loads without this package."""

import os
import shutil

import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_spec, pack_like


def env_output_signature(spec: EnvironmentSpec, *leading: int | None) -> EnvOutput:
    """TensorSpecs of an EnvOutput with these leading dimensions."""

    def signature(leaf: ArraySpec) -> tf.TensorSpec:
        return tf.TensorSpec([*leading, *leaf.shape], leaf.dtype)

    reward, done, truncated = (tf.TensorSpec(leading, dtype) for dtype in (tf.float32, tf.bool, tf.bool))
    leaves = [signature(leaf) for _, leaf in flatten_spec(spec.observation)]
    return EnvOutput(reward, done, truncated, pack_like(spec.observation, leaves))


class ExportedPolicy(tf.Module):
    """The functions of the SavedModel.

    * `initial_state(batch_size)`: int32 scalar -> recurrent state, nest of `[B, ...]`;
    * `act(prev_action, env, state, env_ids)` -> (`AgentOutput`, next state), like `Policy.act`.
    """

    def __init__(self, policy: Policy, spec: EnvironmentSpec):
        super().__init__(name="policy")
        self.policy = policy
        self.initial_state = tf.function(
            lambda batch_size: policy.initial_state(batch_size),
            input_signature=[tf.TensorSpec([], tf.int32)],
            autograph=False,
        )
        action = tf.TensorSpec([None, *spec.action.shape], spec.action.dtype)
        env: EnvOutput = env_output_signature(spec, None)
        state = tf.nest.map_structure(
            lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), policy.initial_state(1)
        )
        env_ids = tf.TensorSpec([None], tf.int32)
        self.act = tf.function(
            lambda *args: policy.act(*args), input_signature=[action, env, state, env_ids], autograph=False
        )


def export_policy(policy: Policy, spec: EnvironmentSpec, directory: str) -> None:
    """Writes the SavedModel under a temporary name, then replaces any earlier one with it.

    If a process was killed while it did the latter, the earlier one gets its name back first.

    `spec` is that of the policy's environments, and `directory` the SavedModel's.
    """
    temporary, old = f"{directory}.tmp", f"{directory}.old"
    if os.path.isdir(old) and not os.path.islink(old) and not os.path.lexists(directory):
        shutil.move(old, directory)
    for leftover in (temporary, old):
        if os.path.islink(leftover):  # Nothing is written where it leads.
            os.unlink(leftover)
        shutil.rmtree(leftover, ignore_errors=True)
    tf.saved_model.save(ExportedPolicy(policy, spec), temporary)
    # `move` copies where directories cannot be renamed, as in a mounted bucket.
    if os.path.exists(directory):
        shutil.move(directory, old)
    shutil.move(temporary, directory)
    shutil.rmtree(old, ignore_errors=True)
