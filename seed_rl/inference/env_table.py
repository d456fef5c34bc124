"""What inference keeps of every environment, beside the inference device: recurrent state, last action."""

from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Nest, flatten_spec, pack_like


class EnvTable(tf.Module):
    """Rows by environment id, and the one `tf.function` that reads them, acts, and writes them back."""

    def __init__(self, agent: Agent, spec: EnvironmentSpec, num_envs: int):
        """Allocates the rows.

        Args:
          agent: acts.
          spec: of the environments.
          num_envs: rows.
        """
        super().__init__(name="env_table")
        self._agent = agent
        self._initial_state = agent.initial_state(1)
        self._states = tf.nest.map_structure(
            lambda x: tf.Variable(x, trainable=False), agent.initial_state(num_envs)
        )
        self._prev_action = tf.Variable(spec.action.zeros(num_envs), trainable=False)
        self._act = tf.function(self._traced_act, input_signature=_act_signature(spec), autograph=False)

    def act(
        self, env_ids: np.ndarray, env: EnvOutput, starting: np.ndarray
    ) -> tuple[np.ndarray, AgentOutput, Nest]:
        """One inference call.

        Args:
          env_ids: int32 `[B]`, each at most once.
          env: `[B, ...]`.
          starting: int32 `[K]`, positions in `env_ids` whose recurrent state before this step is wanted.

        Returns:
          The actions that produced `env` `[B, ...]`, the agent's answer `[B, ...]`, and the wanted states
          `[K, ...]`, all NumPy.
        """
        return tf.nest.map_structure(lambda x: x.numpy(), self._act(env_ids, env, starting))

    def reset(self, env_ids: np.ndarray) -> None:
        """Puts rows back to the initial state."""
        for row, initial in zip(
            tf.nest.flatten(self._states), tf.nest.flatten(self._initial_state), strict=True
        ):
            self._write(row, env_ids, tf.repeat(initial, len(env_ids), axis=0))
        zeros = tf.zeros([len(env_ids), *self._prev_action.shape[1:]], self._prev_action.dtype)
        self._write(self._prev_action, env_ids, zeros)

    def _traced_act(self, env_ids: tf.Tensor, env: EnvOutput, starting: tf.Tensor) -> Any:
        states = tf.nest.map_structure(lambda rows: tf.gather(rows, env_ids), self._states)
        prev_action = tf.gather(self._prev_action, env_ids)
        wanted = tf.nest.map_structure(lambda x: tf.gather(x, starting), states)
        output, next_states = self._agent.act(prev_action, env, states, env_ids)
        for rows, values in zip(tf.nest.flatten(self._states), tf.nest.flatten(next_states), strict=True):
            self._write(rows, env_ids, values)
        self._write(self._prev_action, env_ids, output.action)
        return prev_action, output, wanted

    @staticmethod
    def _write(rows: tf.Variable, env_ids: Any, values: tf.Tensor) -> None:
        rows.scatter_update(tf.IndexedSlices(values, tf.convert_to_tensor(env_ids)))


def _act_signature(spec: EnvironmentSpec) -> list[Any]:
    ids = tf.TensorSpec([None], tf.int32)
    return [ids, env_output_signature(spec, None), ids]


def env_output_signature(spec: EnvironmentSpec, *leading: int | None) -> EnvOutput:
    """TensorSpecs of an EnvOutput with these leading dimensions."""

    def signature(leaf: ArraySpec) -> tf.TensorSpec:
        return tf.TensorSpec([*leading, *leaf.shape], leaf.dtype)

    scalars = (tf.TensorSpec(leading, dtype) for dtype in (tf.float32, tf.bool, tf.bool))
    leaves = [signature(leaf) for _, leaf in flatten_spec(spec.observation)]
    return EnvOutput(*scalars, pack_like(spec.observation, leaves))
