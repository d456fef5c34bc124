"""Gathers the steps of every environment in rings, and copies unrolls out of them when they are complete."""

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from seed_rl.experience.base import StepStore, UnrollConfig
from seed_rl.experience.memory import BufferPool
from seed_rl.types import Nest, Unroll

# From so many unrolls on, leaves of a step up to this size are copied for all of them at once: slices of each
# unroll cost a microsecond.
_MANY_UNROLLS, _SMALL_BYTES = 4, 1 << 10


class RingStore(StepStore):
    """A ring buffer of `S = burn_in + T + 1` steps per environment.

    An unroll is copied when its last step comes in, so it may be used even if its environment has been reset
    in the meantime. It goes straight into the memory that training or replay reads: leaf by leaf, without
    anything in between.
    """

    def __init__(self, num_envs: int, unroll: UnrollConfig):
        """Prepares an empty store; see `StepStore`. The first steps determine the memory that is needed."""
        super().__init__(num_envs, unroll)
        # Unrolls in progress at the same time, each with the state before its first step.
        self._heads = -(-self._stored // self._period) + 1
        self._stream = np.zeros(num_envs, np.int64)  # Resets so far.
        # One per leaf of a step, `[num_envs * S, ...]`, and one per leaf of a state.
        self._rings: list[np.ndarray] = []
        self._states: list[np.ndarray] = []
        self._structure: Any = None
        self._pool = BufferPool()
        self._allocating = threading.Lock()

    def reset(self, env_ids: np.ndarray, stream: int) -> None:
        """Drops unfinished unrolls; see `StepStore.reset`."""
        super().reset(env_ids, stream)
        self._stream[env_ids] = stream

    def append(
        self, env_ids: np.ndarray, step: Nest, starting: np.ndarray, states: Nest, policy_version: int
    ) -> list[Any]:
        """Adds one step, and copies the unrolls that it completed; see `StepStore.append`."""
        versions = np.full(len(env_ids), policy_version, np.int64)
        leaves, structure = optree.tree_flatten((*step, versions))
        state_leaves, state_structure = optree.tree_flatten(states)
        self._prepare(leaves, state_leaves, (structure, state_structure))
        if len(starting):
            heads = self._head(env_ids[starting], self._count[env_ids[starting]])
            for kept, leaf in zip(self._states, state_leaves, strict=True):
                kept[heads] = leaf
        return self._add(env_ids, leaves)

    def _prepare(self, leaves: Sequence[Any], states: Sequence[Any], structure: Any) -> None:
        """Allocates memory for such leaves, each with one dimension before its own, if there is none yet."""
        if self._structure is None:
            with self._allocating:
                if self._structure is None:
                    self._rings = self._allocate(self._stored, leaves)
                    self._states = self._allocate(self._heads, states)
                    self._structure = structure

    def _add(self, env_ids: np.ndarray, leaves: Sequence[Any]) -> list[Any]:
        """Writes the leaves `[B, ...]` of a step, and copies the unrolls that it completed."""
        env_ids = env_ids.astype(np.intp, copy=False)  # Once here; NumPy would do it for each array.
        count = self._count[env_ids]
        slots = env_ids * self._stored + count % self._stored  # Before the first unroll, too.
        for ring, leaf in zip(self._rings, leaves, strict=True):
            ring[slots] = leaf
        self._count[env_ids] = count + 1
        first = count + 1 - self._stored
        complete = (first >= 0) & (first % self._period == 0)
        return self._finish(env_ids[complete], first[complete]) if complete.any() else []

    @abc.abstractmethod
    def _finish(self, env_ids: np.ndarray, first: np.ndarray) -> list[Any]:
        """Copies the unrolls of these environments that begin at their steps `first`; see `append`."""

    def _allocate(self, length: int, leaves: Sequence[Any]) -> list[np.ndarray]:
        return [np.zeros((len(self._count) * length, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]

    def _memory(self, size: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Memory for so many unrolls: leaves of their steps `[S, size, ...]` and states `[size, ...]`."""
        return (
            [self._pool.array((self._stored, size, *x.shape[1:]), x.dtype) for x in self._rings],
            [self._pool.array((size, *x.shape[1:]), x.dtype) for x in self._states],
        )

    def _copy(
        self,
        env_ids: np.ndarray,
        first: np.ndarray,
        steps: Sequence[np.ndarray],
        states: Sequence[np.ndarray],
        column: int,
    ) -> None:
        """Copies the unrolls `[N]` of these environments into columns of `_memory`, from `column` on."""
        columns = slice(column, column + len(env_ids))
        begins, offsets, slots = env_ids * self._stored, first % self._stored, None
        if len(env_ids) >= _MANY_UNROLLS:
            slots = begins + (offsets + np.arange(self._stored)[:, np.newaxis]) % self._stored  # `[S, N]`.
        for ring, array in zip(self._rings, steps, strict=True):
            if slots is not None and ring[0].nbytes <= _SMALL_BYTES:
                array[:, columns] = ring[slots]
                continue
            for place in range(len(env_ids)):
                begin, end = begins[place], begins[place] + self._stored
                middle = begin + offsets[place]
                array[: end - middle, column + place] = ring[middle:end]
                array[end - middle :, column + place] = ring[begin:middle]
        heads = self._head(env_ids, first)
        for kept, array in zip(self._states, states, strict=True):
            array[columns] = kept[heads]

    def _head(self, env_ids: Any, first: Any) -> Any:
        return env_ids * self._heads + (first // self._period) % self._heads

    def _nests(self, steps: Sequence[np.ndarray], states: Sequence[np.ndarray]) -> Any:
        """Nests of the leaves of steps and of states: prev_action, env, agent, state, and policy version."""
        structure, state_structure = self._structure
        nest: Any = optree.tree_unflatten(structure, steps)
        *step, versions = nest
        return (*step, optree.tree_unflatten(state_structure, states), versions)


class UnrollStore(RingStore):
    """Hands out unrolls one by one.

    An unroll's `stream` separates it from unrolls before and after a reset, in whatever order they arrive.
    """

    def __init__(self, num_envs: int, unroll: UnrollConfig, insert: Callable[[list[Unroll]], None]):
        """Prepares an empty store; `insert` takes the unrolls that are handed over, and may block."""
        super().__init__(num_envs, unroll)
        self._insert = insert

    def hand_over(self, completed: list[Unroll]) -> None:
        """Inserts unrolls; see `StepStore.hand_over`."""
        if completed:
            self._insert(completed)

    def _finish(self, env_ids: np.ndarray, first: np.ndarray) -> list[Unroll]:
        unrolls = []
        origins = zip(env_ids.tolist(), first.tolist(), self._stream[env_ids].tolist(), strict=True)
        for place, origin in enumerate(origins):
            one, (steps, states) = slice(place, place + 1), self._memory(1)
            self._copy(env_ids[one], first[one], steps, states, 0)
            nests = self._nests([x[:, 0] for x in steps], [x[0] for x in states])
            unrolls.append(Unroll(*nests, *origin))
        return unrolls
