"""The latest steps of every environment, each stored once, and the transitions that are cut from them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from seed_rl.experience.buffer_pool import BufferPool
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Sample

# The policy version of a step, and how many steps of its stream are before it, at most the burn-in.
_TABLE_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))


class Leaf(NamedTuple):
    """One array of a step, without the batch dimension."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: np.ndarray) -> "Leaf":
        """The leaf of an array `[B, *shape]`."""
        return cls(array.shape[1:], array.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of one step of it."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def flatten(prev_action: Any, env: EnvOutput, agent: AgentOutput) -> tuple[list[Any], Any]:
    """The arrays `[B, ...]` of a step that are stored, which leaves `info` out, and their structure."""
    step: Any = (prev_action, env, agent._replace(info={}))
    return optree.tree_flatten(step)


class StepRings:
    """One ring per environment and array of a step, `[num_envs, length, ...]`. Not thread-safe.

    An environment's steps are numbered from 0; number n is in slot `n % length`. Memory is only reserved at
    first, and in use from when it is written to.
    """

    def __init__(self, num_envs: int, length: int, unroll: UnrollConfig, leaves: Sequence[Leaf]):
        """Reserves memory.

        Args:
          num_envs: number of environments.
          length: of each ring, in agent steps.
          unroll: how transitions are cut.
          leaves: the arrays of a step.
        """
        self.leaves = list(leaves)
        self._num_envs, self._length, self._burn_in = num_envs, length, unroll.burn_in
        self._offsets = np.arange(-unroll.burn_in, unroll.length + 1)[:, np.newaxis]
        self._pool = BufferPool()
        slots = num_envs * length
        self._rings = [np.zeros((slots, *leaf.shape), leaf.dtype) for leaf in leaves]
        self._versions, self._history = (np.zeros(slots, dtype) for dtype in _TABLE_DTYPES)

    @staticmethod
    def bytes_per_step(leaves: Sequence[Leaf]) -> int:
        """Memory of one step of one environment."""
        return sum(leaf.nbytes for leaf in leaves) + sum(dtype.itemsize for dtype in _TABLE_DTYPES)

    def write(
        self,
        env_ids: np.ndarray,
        steps: np.ndarray,
        arrays: Sequence[np.ndarray],
        in_stream: np.ndarray,
        policy_version: int,
    ) -> None:
        """Writes one step of each of these environments.

        Args:
          env_ids: int `[K]`, each at most once.
          steps: their numbers `[K]`.
          arrays: `[K, ...]`, one for each leaf.
          in_stream: int `[K]`, how many steps of the same streams are before them.
          policy_version: number of updates that the policy had received.
        """
        slots = self._slots(env_ids, steps)
        for ring, array in zip(self._rings, arrays, strict=True):
            ring[slots] = array
        self._versions[slots] = policy_version
        self._history[slots] = np.minimum(in_stream, self._burn_in)

    def read(self, leaf: int, env_ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """One leaf `[K, ...]` of steps `[K]`."""
        return self._rings[leaf][self._slots(env_ids, steps)]

    def cut(
        self, env_ids: np.ndarray, first: np.ndarray, structure: Any, weight: np.ndarray
    ) -> tuple[Sample, np.ndarray]:
        """The transitions whose first steps have these numbers `[B]`, each after its history.

        The history of a transition is the `burn_in` steps before it. Where the stream has not so many, its
        first step is repeated in the missing places, and `done` is set there, so that nothing from before
        goes into its frame stack.

        Returns:
          A sample of arrays `[S, B, ...]`, and the policy versions `[B]` of the first steps.
        """
        begin = self._slots(env_ids, first)
        available = self._history[begin]
        oldest = first - available
        steps = first + self._offsets
        slots = self._slots(env_ids, np.maximum(steps, oldest))
        arrays = []
        for leaf, ring in zip(self.leaves, self._rings, strict=True):
            array = self._pool.array((*slots.shape, *leaf.shape), leaf.dtype)
            # Slots are never out of range; checking them would take a buffer.
            np.take(ring, slots, axis=0, out=array, mode="clip")
            arrays.append(array)
        nest: Any = optree.tree_unflatten(structure, arrays)
        prev_action, env, agent = nest
        fresh = (steps <= oldest) & (available < self._burn_in)
        env.done[fresh], env.truncated[fresh] = True, False
        return Sample(prev_action, env, agent, (), weight), self._versions[begin]

    def of(self, env_id: int, steps: int) -> Iterator[np.ndarray]:
        """Views of the part of each ring of an environment that is in use after this many steps."""
        begin = env_id * self._length
        for ring in (*self._rings, self._versions, self._history):
            yield ring[begin : begin + min(steps, self._length)]

    def _slots(self, env_ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return env_ids * self._length + steps % self._length
