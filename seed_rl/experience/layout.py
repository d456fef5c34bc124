"""How replay stores unrolls: as compressed blobs, shared where unrolls overlap, so each step is kept once.

An unroll has `S = burn_in + T + 1` steps and shares its first `burn_in + 1` with the unroll before it. It is
cut into a prefix of `burn_in + 1` steps, a head, and a tail of `burn_in + 1` steps; its tail is the prefix of
the next unroll.
"""

import collections
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree

from seed_rl.experience.buffer_pool import BufferPool
from seed_rl.experience.compression import Compressor
from seed_rl.experience.work_sharing import Helpers
from seed_rl.types import AgentOutput, EnvOutput, Nest, Sample, Unroll

Blob: TypeAlias = bytes | memoryview

# Unrolls that a thread unpacks at a time: few, so that all threads finish at about the same time.
_CHUNK = 4


class Own(NamedTuple):
    """The blobs of an unroll that are its own, whether or not it continues another one."""

    head: Blob
    tail: Blob
    state: Blob


class Packed(NamedTuple):
    """An unroll as blobs; `prefix` may be the same object as another unroll's `tail`."""

    prefix: Blob
    head: Blob
    tail: Blob
    state: Blob
    policy_version: int


def cuts(length: int, burn_in: int) -> list[int]:
    """Where prefix, head and tail of an unroll end, given its length T and burn-in in agent steps."""
    return [burn_in + 1, length, length + burn_in + 1]


class _Leaf(NamedTuple):
    """One array of a step, or of a recurrent state."""

    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int


def _leaf(array: np.ndarray) -> _Leaf:
    return _Leaf(array.shape, array.dtype, array.nbytes)


class Layout:
    """Packs unrolls that all have the structure of an example, and unpacks them into batches. Thread-safe."""

    def __init__(self, example: Unroll, burn_in: int, compressor: Compressor, helpers: Helpers):
        """Uses the structure, shapes and dtypes of `example`, and `helpers` to unpack batches.

        Raises:
          ValueError: an unroll shares more steps with the one before it than it adds.
        """
        self._compressor, self._helpers = compressor, helpers
        self._local, self._pool = threading.local(), BufferPool()
        steps, self._structure = optree.tree_flatten(self._steps(example))
        state, self._state_structure = optree.tree_flatten(example.initial_state)
        self._leaves = [_leaf(x[0]) for x in steps]
        self._state_leaves = [_leaf(np.asarray(x)) for x in state]
        self.num_steps = len(steps[0])
        shared = burn_in + 1
        if self.num_steps < 2 * shared:
            raise ValueError(
                f"A burn-in of {burn_in} agent steps is too long for unrolls of {self.num_steps} steps; it "
                "must be less than the unroll length."
            )
        bounds = (0, *cuts(self.num_steps - shared, burn_in))
        self._prefix, self._head, self._tail = (slice(*ends) for ends in itertools.pairwise(bounds))

    def describe(self) -> dict[str, Any]:
        """Everything in which layouts can differ, in a form that JSON supports."""
        return {
            "cuts": [self._prefix.stop, self._head.stop, self._tail.stop],
            "steps": [[list(leaf.shape), leaf.dtype.str] for leaf in self._leaves],
            "states": [[list(leaf.shape), leaf.dtype.str] for leaf in self._state_leaves],
        }

    def pack(self, unroll: Unroll) -> Own:
        """Compresses an unroll, steps `[S, ...]`, except for its prefix."""
        steps = optree.tree_leaves(self._steps(unroll))
        return Own(
            self._pack_steps(steps, self._head),
            self._pack_steps(steps, self._tail),
            self._join(optree.tree_leaves(unroll.initial_state), self._state_leaves, 1),
        )

    def pack_prefix(self, unroll: Unroll) -> bytes:
        """Compresses the prefix of an unroll that continues none in replay."""
        return self._pack_steps(optree.tree_leaves(self._steps(unroll)), self._prefix)

    def unpack(self, packed: Sequence[Packed], weight: np.ndarray) -> Sample:
        """A time-major batch `[S, B, ...]` with the importance weights `[B]`; helpers share the work."""
        size = len(packed)
        steps = [self._pool.array((self.num_steps, size, *x.shape), x.dtype) for x in self._leaves]
        states = [self._pool.array((size, *x.shape), x.dtype) for x in self._state_leaves]

        def unpack(indices: range) -> None:
            for index in indices:
                self._unpack(packed[index], index, steps, states)

        chunks = [range(start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK)]
        with self._helpers.sharing(unpack, chunks) as done:
            collections.deque(done, maxlen=0)
        prev_action, env, agent = optree.tree_unflatten(self._structure, steps)
        state = optree.tree_unflatten(self._state_structure, states)
        return Sample(prev_action, env, agent, state, weight)

    def _unpack(
        self, packed: Packed, index: int, steps: Sequence[np.ndarray], states: Sequence[np.ndarray]
    ) -> None:
        """Decompresses an unroll into place `index` of the arrays of a batch."""
        blobs = (packed.prefix, packed.head, packed.tail)
        for part, blob in zip((self._prefix, self._head, self._tail), blobs, strict=True):
            parts = self._split(blob, self._leaves, part.stop - part.start)
            for array, values in zip(steps, parts, strict=True):
                array[part, index] = values
        for array, values in zip(states, self._split(packed.state, self._state_leaves, 1), strict=True):
            array[index] = values[0]

    def _steps(self, unroll: Unroll) -> tuple[Nest, EnvOutput, AgentOutput]:
        """The parts of the steps that are stored."""
        return unroll.prev_action, unroll.env, unroll.agent._replace(info={})

    def _pack_steps(self, steps: Sequence[np.ndarray], part: slice) -> bytes:
        return self._join([array[part] for array in steps], self._leaves, part.stop - part.start)

    def _join(self, arrays: Sequence[Any], leaves: Sequence[_Leaf], count: int) -> bytes:
        """The first array's bytes, then the second's, and so on, compressed together."""
        raw = self._scratch(leaves, count)
        for view, array in zip(_views(raw, leaves, count), arrays, strict=True):
            view[...] = array
        return self._compressor.compress(raw)

    def _split(self, blob: Blob, leaves: Sequence[_Leaf], count: int) -> Iterator[np.ndarray]:
        """The inverse of `_join`; its result is overwritten by the next call in this thread."""
        raw = self._scratch(leaves, count)
        self._compressor.decompress(blob, raw)
        return _views(raw, leaves, count)

    def _scratch(self, leaves: Sequence[_Leaf], count: int) -> np.ndarray:
        """Memory for `count` steps, the same for every call: fresh memory is slow to touch."""
        size = count * sum(leaf.nbytes for leaf in leaves)
        if size > len(getattr(self._local, "scratch", b"")):
            self._local.scratch = np.empty(size, np.uint8)
        return self._local.scratch[:size] if size else np.empty(0, np.uint8)


def _views(raw: np.ndarray, leaves: Sequence[_Leaf], count: int) -> Iterator[np.ndarray]:
    """The arrays `[count, ...]` that lie one after the other in `raw`."""
    start = 0
    for leaf in leaves:
        yield np.ndarray((count, *leaf.shape), leaf.dtype, raw, start)
        start += count * leaf.nbytes
