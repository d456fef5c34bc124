"""What inference keeps of every environment, beside the inference device: recurrent state, last action."""

from typing import Any

import numpy as np
import optree
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.inference.records import decode_records
from seed_rl.types import AgentOutput, EnvironmentSpec, Nest
from seed_rl.wire.codec import StepCodec


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
        self._agent, self._spec = agent, spec
        self._layout = StepCodec(spec).record
        self._initial_state = agent.initial_state(1)
        self._states = tf.nest.map_structure(
            lambda x: tf.Variable(x, trainable=False), agent.initial_state(num_envs)
        )
        self._prev_action = tf.Variable(spec.action.zeros(num_envs), trainable=False)
        ids = tf.TensorSpec([None], tf.int32)
        records = tf.TensorSpec([None, self._layout.itemsize], tf.uint8)
        # A concrete function with few arguments: finding the trace and converting arguments would otherwise
        # take longer than a small network's inference.
        self._act = tf.function(self._traced_act, autograph=False).get_concrete_function(ids, records, ids)

    def act(
        self, env_ids: np.ndarray, records: bytes, starting: np.ndarray
    ) -> tuple[np.ndarray, AgentOutput, Nest]:
        """One inference call.

        Args:
          env_ids: int32 `[B]`, each at most once.
          records: B records as they come over the wire.
          starting: int32 `[K]`, positions in `env_ids` whose recurrent state before this step is wanted.

        Returns:
          The actions before this step `[B, ...]`, the agent's answer `[B, ...]`, and the wanted states
          `[K, ...]`, all NumPy.
        """
        raw = np.frombuffer(records, np.uint8).reshape(len(env_ids), self._layout.itemsize)
        outputs = self._act(tf.constant(env_ids), tf.constant(raw), tf.constant(starting))
        return optree.tree_map(lambda x: x.numpy(), outputs)

    def reset(self, env_ids: np.ndarray) -> None:
        """Puts rows back to the initial state."""
        for row, initial in zip(
            tf.nest.flatten(self._states), tf.nest.flatten(self._initial_state), strict=True
        ):
            self._write(row, env_ids, tf.repeat(initial, len(env_ids), axis=0))
        zeros = tf.zeros([len(env_ids), *self._prev_action.shape[1:]], self._prev_action.dtype)
        self._write(self._prev_action, env_ids, zeros)

    def _traced_act(self, env_ids: tf.Tensor, records: tf.Tensor, starting: tf.Tensor) -> Any:
        env = decode_records(records, self._layout, self._spec)
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
