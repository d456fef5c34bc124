"""The state that inference keeps for every environment, next to its device: recurrent state, last action.

XLA can compile the policy, once for each of a few sizes of batches.
"""

import contextlib
import functools
import threading
from typing import Any

import numpy as np
import optree
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.devices.placement import is_tpu
from seed_rl.environments.batched import empty_output
from seed_rl.inference.rows import Padding, row_layout
from seed_rl.ops import draws
from seed_rl.types import (
    LARGEST_INPUT,
    AgentOutput,
    EnvironmentSpec,
    EnvOutput,
    Nest,
    pack_like,
)
from seed_rl.wire.codec import StepCodec

# The largest number in an agent's answer. The gradient of a squared error multiplies values by features of
# the same size, and its norm squares that again: with larger values float32 overflows there.
LARGEST_INFO = 1e8


class EnvTable:
    """Rows by environment id, and the one `tf.function` that reads them, acts, and writes them back.

    Attributes:
      record: dtype of an environment's step.
    """

    def __init__(self, policy: Policy, spec: EnvironmentSpec, num_envs: int, device: str = ""):
        """Allocates a row for each environment.

        `device` is TensorFlow's name of the inference device; empty: TensorFlow places everything.
        """
        # TensorFlow's own context costs microseconds, and `act` enters it for each batch.
        self._on_device = functools.partial(tf.device, device) if device else contextlib.nullcontext
        self._policy, self._spec = policy, spec
        with self._on_device():
            self._allocate(num_envs)
            self._prepare()

    def _allocate(self, num_envs: int) -> None:
        policy, spec = self._policy, self._spec
        self.record = StepCodec(spec).record
        self._row = row_layout(self.record)
        self._initial_state = policy.initial_state(1)
        self._states = tf.nest.map_structure(
            lambda x: tf.Variable(x, trainable=False), policy.initial_state(num_envs)
        )
        self._prev_action = tf.Variable(spec.action.zeros(num_envs), trainable=False)

    def _prepare(self) -> None:
        self._act = self._trace(None)
        self._call = Call(self._act)

    def _trace(self, num_rows: int | None) -> Any:
        """The concrete function for batches of so many rows; None: of any number."""
        rows = tf.TensorSpec([num_rows, self._row.itemsize], tf.uint8)
        return tf.function(self._traced_act, autograph=False).get_concrete_function(rows)

    def act(self, rows: np.ndarray) -> tuple[np.ndarray, AgentOutput, Nest, np.ndarray]:
        """One inference call.

        Args:
          rows: `[B]` from `Rows`, each environment at most once. TensorFlow reads them in place.

        Returns:
          The actions before this step `[B, ...]`, the agent's answer `[B, ...]`, the recurrent states before
          this step `[K, ...]` of the K rows with `starts` set, and whether each row is free of overflow
          `[B]`, all NumPy. Rows that overflow must be reset: their states are written back as they are.
        """
        with self._on_device():
            return self._call(rows)

    def reset(self, env_ids: np.ndarray) -> None:
        """Resets rows to the initial state."""
        initial = tf.nest.map_structure(lambda x: tf.repeat(x, len(env_ids), axis=0), self._initial_state)
        self.restore(env_ids, self._spec.action.zeros(len(env_ids)), initial)

    def restore(self, env_ids: np.ndarray, prev_action: np.ndarray, states: Nest) -> None:
        """Sets rows to actions `[B, ...]` and recurrent states `[B, ...]` of before."""
        with self._on_device():
            for row, values in zip(tf.nest.flatten(self._states), tf.nest.flatten(states), strict=True):
                self._write(row, env_ids, values)
            self._write(self._prev_action, env_ids, prev_action)

    def last_action(self, env_ids: np.ndarray) -> np.ndarray:
        """The actions `[B, ...]` that were chosen last for rows."""
        with self._on_device():
            return tf.gather(self._prev_action, env_ids).numpy()

    def policy_is_finite(self) -> bool:
        """Whether the policy's variables and its answer to an observation of zeros are finite; slow."""
        table = {id(variable) for variable in [*tf.nest.flatten(self._states), self._prev_action]}
        for variable in self._act.variables:
            is_weight = id(variable) not in table and variable.dtype.is_floating
            if is_weight and not np.isfinite(variable.numpy()).all():
                return False
        prev_action, env, env_ids = first_step(self._spec)
        output, state = self._policy.act(prev_action, env, self._initial_state, env_ids)
        return bool(_can_be_trained_on(env, output, state).numpy().all())

    def _traced_act(self, rows: tf.Tensor) -> Any:
        with self._on_device():
            return self._act_on(rows)

    def _act_on(self, rows: tf.Tensor) -> Any:
        env_ids, starts = (_decode_array(rows, self._row, name) for name in ("env_id", "starts"))
        starting = tf.where(starts)[:, 0]
        states = tf.nest.map_structure(lambda rows: tf.gather(rows, env_ids), self._states)
        prev_action = tf.gather(self._prev_action, env_ids)
        wanted = tf.nest.map_structure(lambda x: tf.gather(x, starting), states)
        output, next_states, is_good = self._respond(rows, prev_action, states, env_ids)
        for rows, values in zip(tf.nest.flatten(self._states), tf.nest.flatten(next_states), strict=True):
            self._write(rows, env_ids, values)
        self._write(self._prev_action, env_ids, output.action)
        return prev_action, output, wanted, is_good

    def _respond(
        self, rows: tf.Tensor, prev_action: tf.Tensor, states: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest, tf.Tensor]:
        """The policy's answer to rows, the next states, and whether each row is free of overflow `[B]`."""
        env = decode_records(rows, self.record, self._spec)  # The record is the first field of a row.
        output, next_states = self._policy.act(prev_action, env, states, env_ids)
        return output, next_states, _can_be_trained_on(env, output, next_states)

    @staticmethod
    def _write(rows: tf.Variable, env_ids: Any, values: tf.Tensor) -> None:
        rows.scatter_update(tf.IndexedSlices(values, tf.convert_to_tensor(env_ids)))


class Call:
    """Calls a traced function of one batch of rows: NumPy in, NumPy out."""

    def __init__(self, function: Any):
        """Prepares the call of a concrete function."""
        self._function = function
        self._as_op = not any(map(tf.config.list_logical_devices, ("GPU", "TPU")))
        self._captured = list(function.captured_inputs)
        self._dtypes = [output.dtype for output in function.outputs]
        # TensorFlow may order the outputs differently from optree.
        nest = tf.nest.pack_sequence_as(function.structured_outputs, list(range(len(self._dtypes))))
        self._places, self._structure = optree.tree_flatten(nest)

    def __call__(self, rows: np.ndarray) -> Any:
        """The function's outputs, a nest of arrays."""
        raw = rows.view(np.uint8).reshape(len(rows), rows.itemsize)
        tensor = tf.experimental.dlpack.from_dlpack(raw.__dlpack__())
        outputs = self._call_as_op(tensor) if self._as_op else tf.nest.flatten(self._function(tensor))
        return optree.tree_unflatten(self._structure, [outputs[place].numpy() for place in self._places])

    def _call_as_op(self, rows: tf.Tensor) -> list[tf.Tensor]:
        """Does the same in a quarter of the time: a call spends most of its time on inspecting its argument.

        On the CPU only: how such an op places its integers on other devices is untested.
        """
        arguments = [rows, *self._captured]
        return tf.raw_ops.StatefulPartitionedCall(args=arguments, Tout=self._dtypes, f=self._function)


def _can_be_trained_on(env: EnvOutput, output: AgentOutput, next_states: Nest) -> tf.Tensor:
    """Whether steps and answers are small enough, and actions and states finite: bool `[B]`."""
    limits = ((env, LARGEST_INPUT), (output.info, LARGEST_INFO), ((output.action, next_states), np.inf))
    checks = []  # As few operations as possible: each costs microseconds.
    for nest, largest in limits:
        for leaf in tf.nest.flatten(nest):
            if leaf.dtype.is_floating or (leaf.dtype.size > 4 and largest < np.inf):
                is_good = tf.abs(tf.cast(leaf, tf.float32)) < largest  # False for NaN.
                inner = list(range(1, leaf.shape.rank))
                checks.append(tf.reduce_all(is_good, inner) if inner else is_good)
    return functools.reduce(tf.logical_and, checks)  # Never empty: there are always rewards.


def first_step(spec: EnvironmentSpec) -> tuple[tf.Tensor, EnvOutput, tf.Tensor]:
    """Input of a policy at the first step of environment 0, where all is zero: see `Policy.act`."""
    env = empty_output(spec, 1)._replace(done=np.ones(1, bool))
    return tf.nest.map_structure(tf.constant, (spec.action.zeros(1), env, np.zeros(1, np.int32)))


def decode_records(records: tf.Tensor, layout: np.dtype, spec: EnvironmentSpec) -> EnvOutput:
    """Decodes records as `StepCodec.decode`, on the device: one tensor goes in, instead of one per array.

    `records` are uint8 `[B, N]`, and begin with what `layout`, the codec's `record`, describes.
    """
    assert layout.names is not None
    reward, done, truncated, *leaves = (_decode_array(records, layout, name) for name in layout.names)
    return EnvOutput(reward, done, truncated, pack_like(spec.observation, leaves))


def _decode_array(rows: tf.Tensor, layout: np.dtype, name: str) -> tf.Tensor:
    """The field `name` of rows, from uint8 `[B, N]` to `[B, *shape]`."""
    assert layout.fields is not None
    dtype, offset = layout.fields[name][:2]
    raw = rows[:, offset : offset + dtype.itemsize]
    base, shape = dtype.base, dtype.shape
    if base.kind == "b":
        return tf.cast(tf.reshape(raw, [-1, *shape]), tf.bool)
    if base == np.uint8:
        return tf.reshape(raw, [-1, *shape])
    size = [base.itemsize] if base.itemsize > 1 else []
    return tf.bitcast(tf.reshape(raw, [-1, *shape, *size]), tf.as_dtype(base.newbyteorder("=")))


class CompiledTable(EnvTable):
    """Does what `EnvTable` does, with rows that belong to no environment to fill batches up.

    Only what a row leads to is compiled. Reading and writing the table is not: XLA would replace the whole
    table in each call, and two threads would undo each other's writes.
    """

    def __init__(
        self, policy: Policy, spec: EnvironmentSpec, num_envs: int, device: str = "", largest_batch: int = 64
    ):
        """Allocates the rows, and one more for the rows that fill batches up; compiles nothing yet.

        `largest_batch` is in environments; see `EnvTable` for the others.
        """
        self._compiled_on = device
        self._largest_batch, self._num_envs = largest_batch, num_envs
        # A TPU only runs what is compiled.
        super().__init__(policy, spec, num_envs + 1, "CPU:0" if is_tpu(device) else device)

    def _prepare(self) -> None:
        self._padding = Padding(self._row, self._largest_batch, self._num_envs)
        self._calls: dict[int, Call] = {}
        self._tracing = threading.Lock()

    @property
    def compiled_sizes(self) -> list[int]:
        """The sizes of batches that have been compiled so far."""
        return sorted(self._calls)

    def act(self, rows: np.ndarray) -> tuple[np.ndarray, AgentOutput, Nest, np.ndarray]:
        """One inference call; see `EnvTable.act`. The first of each size compiles, which takes long."""
        padded = self._padding.fill(rows)
        with self._on_device():
            call = self._calls.get(len(padded)) or self._add(len(padded))
            prev_action, output, wanted, is_good = call(padded)
        if len(padded) > len(rows):
            kept = prev_action, output, is_good
            prev_action, output, is_good = optree.tree_map(lambda x: x[: len(rows)], kept)
        return prev_action, output, wanted, is_good

    def _add(self, num_rows: int) -> Call:
        with self._tracing:
            if num_rows not in self._calls:
                self._act = self._trace(num_rows)
                self._calls[num_rows] = Call(self._act)
            return self._calls[num_rows]

    def _respond(
        self, rows: tf.Tensor, prev_action: tf.Tensor, states: Nest, env_ids: tf.Tensor
    ) -> tuple[AgentOutput, Nest, tf.Tensor]:
        respond = super()._respond
        # XLA has generators of its own, which --seed does not reach: only the seed of each batch is drawn
        # outside. The number of rows makes it another stream for each function.
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32, seed=rows.shape[0])

        @tf.function(jit_compile=True, autograph=False)
        def compiled(seed: tf.Tensor, *arguments: tf.Tensor) -> tuple[AgentOutput, Nest, tf.Tensor]:
            with draws.seeded(seed):
                return respond(*arguments)

        with tf.device(self._compiled_on) if self._compiled_on else contextlib.nullcontext():
            return compiled(seed, rows, prev_action, states, env_ids)


def make_table(
    policy: Policy, spec: EnvironmentSpec, num_envs: int, device: str = "", largest_batch: int | None = None
) -> EnvTable:
    """A table whose policy is compiled, for batches of up to `largest_batch`; None: an ordinary one."""
    if largest_batch is None:
        return EnvTable(policy, spec, num_envs, device)
    return CompiledTable(policy, spec, num_envs, device, largest_batch)
