"""Memory for training batches that are filled step by step."""

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

# A slab begins at a multiple of as many bytes, so that TensorFlow can read its arrays in place.
_ALIGNMENT = 64

# The kinds of arrays.
_STEPS, _STATES = 0, 1


class Slabs:
    """Slabs of B columns: each has the arrays `[S, B, ...]` and `[B, ...]` of one training batch.

    Column c of all is column `c % B` of slab `c // B`. Many slabs are one array, so that one assignment
    writes into any number of them. Memory is untouched, and so costs nothing, until a slab is first used.

    Not thread-safe, except that columns may be written while others are, and that a slab may come back from
    any thread.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        count: int,
        leaves: Sequence[np.ndarray],
        state_leaves: Sequence[np.ndarray],
    ):
        """Allocates memory.

        Args:
          shape: S, the agent steps, and B, the columns of a slab.
          count: number of slabs; as many again are added whenever they are not enough.
          leaves: examples of the arrays of a step, `[..., *shape]` with one leading dimension.
          state_leaves: the same of a recurrent state.
        """
        self._shape, self._count = shape, count
        # Rows of a slab, and rows from the start of a slab to that of the next; of steps and of states.
        self._used = [math.prod(shape), shape[1]]
        self._stride = [_round_up(rows) for rows in self._used]
        self._examples = [[(x.shape[1:], x.dtype) for x in group] for group in (leaves, state_leaves)]
        self._chunks: list[list[list[np.ndarray]]] = []  # `count` slabs each: arrays of steps, of states.
        # By column: its first row among those of the steps, and of the states.
        self._first_rows = [np.empty(0, np.int64), np.empty(0, np.int64)]
        self._free: list[int] = []  # The last is used first: its memory is warm.

    def __len__(self) -> int:
        """The number of slabs."""
        return self._count * len(self._chunks)

    def take(self) -> int:
        """The number of a slab that nobody uses. Its contents are undefined."""
        try:
            return self._free.pop()
        except IndexError:
            first = len(self)
            self._chunks.append([self._allocate(kind) for kind in (_STEPS, _STATES)])
            slab, column = np.divmod(np.arange(len(self) * self._shape[1]), self._shape[1])
            self._first_rows = [slab * stride + column for stride in self._stride]
            self._free[:0] = range(len(self) - 1, first, -1)
            return first

    def lend(self, slab: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The arrays `[S, B, ...]` of the steps and `[B, ...]` of the states of a slab.

        The slab can be taken again when the last reference to any of them is gone; views of them, and tensors
        that share their memory, count as references.
        """
        lease = _Lease()
        # Not at process exit, when nobody takes slabs any more.
        weakref.finalize(lease, self._free.append, slab).atexit = False
        steps, states = (
            [_lent(rows.reshape(*shape, *rows.shape[1:]), lease) for rows in self._rows_of(slab, kind)]
            for kind, shape in ((_STEPS, self._shape), (_STATES, self._shape[1:]))
        )
        return steps, states

    def write_steps(self, columns: np.ndarray, steps: np.ndarray, leaves: Sequence[np.ndarray]) -> None:
        """Writes agent steps `[N, ...]`: row n becomes step `steps[n]` of column `columns[n]`."""
        self._write(_STEPS, columns, steps * self._shape[1], leaves)

    def write_states(self, columns: np.ndarray, leaves: Sequence[np.ndarray]) -> None:
        """Writes the recurrent states `[N, ...]` before the first steps of columns `[N]`."""
        self._write(_STATES, columns, 0, leaves)

    def exchange(self, column: int, other: int, num_steps: int) -> None:
        """Exchanges the contents of two columns; only the first `num_steps` steps of `column` are kept."""
        for kind, kept in ((_STEPS, num_steps), (_STATES, 1)):
            for a, b in zip(self._column(column, kind), self._column(other, kind), strict=True):
                before = a[:kept].copy()
                a[...] = b
                b[:kept] = before

    def _allocate(self, kind: int) -> list[np.ndarray]:
        arrays, rows = [], self._count * self._stride[kind]
        for shape, dtype in self._examples[kind]:
            memory = np.empty(rows * math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
            arrays.append(np.ndarray((rows, *shape), dtype, memory, -memory.ctypes.data % _ALIGNMENT))
        return arrays

    def _rows_of(self, slab: int, kind: int) -> list[np.ndarray]:
        """The part of each array that belongs to a slab: `[S * B, ...]` for steps, `[B, ...]` for states."""
        chunk, place = divmod(slab, self._count)
        start = place * self._stride[kind]
        return [array[start : start + self._used[kind]] for array in self._chunks[chunk][kind]]

    def _column(self, column: int, kind: int) -> list[np.ndarray]:
        """The part of each array that belongs to a column: `[S, ...]` for steps, `[1, ...]` for states."""
        slab, place = divmod(column, self._shape[1])
        return [rows[place :: self._shape[1]] for rows in self._rows_of(slab, kind)]

    def _write(self, kind: int, columns: np.ndarray, after: Any, leaves: Sequence[np.ndarray]) -> None:
        """Writes row n of each leaf `after[n]` rows after the first one of column `columns[n]`."""
        rows = self._first_rows[kind][columns] + after
        if len(self._chunks) == 1:
            for array, leaf in zip(self._chunks[0][kind], leaves, strict=True):
                array[rows] = leaf
            return
        rows_of_chunk = self._count * self._stride[kind]
        chunks = rows // rows_of_chunk
        for chunk in np.unique(chunks).tolist():
            chosen = np.flatnonzero(chunks == chunk)
            inside = rows[chosen] - chunk * rows_of_chunk
            for array, leaf in zip(self._chunks[chunk][kind], leaves, strict=True):
                array[inside] = leaf[chosen]


class _Lease:
    """What all arrays of a slab that has been lent refer to."""


class _Window:
    """Bytes for an array that refers to a lease; NumPy makes it the base of all views of the array."""

    def __init__(self, rows: np.ndarray, lease: _Lease):
        self._raw, self._lease = rows.reshape(-1).view(np.uint8), lease
        self.__array_interface__ = self._raw.__array_interface__


def _lent(array: np.ndarray, lease: _Lease) -> np.ndarray:
    """The same array, with a reference to the lease."""
    return np.asarray(_Window(array, lease)).view(array.dtype).reshape(array.shape)


def _round_up(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
