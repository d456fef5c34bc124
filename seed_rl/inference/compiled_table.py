"""An environment table whose policy XLA compiles, once for each of a few sizes of batches."""

import contextlib
import threading

import numpy as np
import optree
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.devices.tpu import is_tpu
from seed_rl.inference.env_table import Call, EnvTable
from seed_rl.inference.rows import Padding
from seed_rl.ops import draws
from seed_rl.types import AgentOutput, EnvironmentSpec, Nest


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
