"""Layout of unrolls in replay: compressed blobs, shared where unrolls overlap, so each step is kept once.

An unroll has `S = burn_in + T + 1` steps and shares its first `burn_in + 1` with the unroll before it. It is
cut into a prefix of `burn_in + 1` steps, a head, and a tail of `burn_in + 1` steps; its tail is the prefix of
the next unroll.
"""

import collections
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import optree
import zstandard

from seed_rl.experience.memory import BufferPool, Leaf
from seed_rl.types import AgentOutput, EnvOutput, Nest, Sample, Unroll

# Game frames are simple pictures: the fastest levels already save nearly as much as higher ones.
_LEVEL = 1
# Bytes that may repeat earlier ones are looked for in the last 256 KiB: dozens of frames. Below 512 KiB,
# the library compresses without a branch that is hard to predict: a quarter faster on the hardest game.
_WINDOW_LOG = 18


class Uncompressed:
    """Stores bytes as they are."""

    def compress(self, raw: np.ndarray) -> bytes:
        """Compresses bytes (uint8 `[N]`)."""
        return raw.tobytes()

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """The inverse of `compress`, into a uint8 array `[N]` of the right size.

        Raises:
          ValueError: the bytes are not compressed ones, or decompress to another size.
        """
        raw[:] = np.frombuffer(compressed, np.uint8)


class Zstandard(Uncompressed):
    """Zstandard (RFC 8878), each time as a single frame."""

    def __init__(self) -> None:
        self._local = threading.local()  # Its contexts must not be shared by threads.

    def compress(self, raw: np.ndarray) -> bytes:
        """See `Uncompressed.compress`."""
        if not hasattr(self._local, "compressor"):
            settings = zstandard.ZstdCompressionParameters(
                compression_level=_LEVEL, window_log=_WINDOW_LOG, write_content_size=True
            )
            self._local.compressor = zstandard.ZstdCompressor(compression_params=settings)
        return self._local.compressor.compress(raw)

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """See `Uncompressed.decompress`; fresh memory for the result would cost more than decompressing."""
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            size = self._local.decompressor.stream_reader(compressed).readinto(raw)
        except zstandard.ZstdError as error:
            raise ValueError(f"These bytes cannot be decompressed ({error}).") from None
        if size != len(raw):
            raise ValueError(f"These bytes decompress to {size} bytes, not to {len(raw)}.")


# By what --replay_compression calls them.
COMPRESSORS = {"zstd": Zstandard, "none": Uncompressed}


Blob: TypeAlias = bytes | memoryview
Map: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]

# The pieces of an unroll, in the order in which `Packed` has them.
_PREFIX, _HEAD, _TAIL, _STATE = range(4)

# Unrolls that a thread unpacks at a time: few, so that all threads finish at about the same time.
_CHUNK = 4


class Packed(NamedTuple):
    """An unroll as blobs; `prefix` may be the same object as another unroll's `tail`."""

    prefix: Blob
    head: Blob
    tail: Blob
    state: Blob


def cuts(length: int, burn_in: int) -> list[int]:
    """Ends of prefix, head and tail of an unroll, given its length T and burn-in in agent steps."""
    return [burn_in + 1, length, length + burn_in + 1]


class _Piece(NamedTuple):
    """Unit of compression: `count` steps of all leaves, one leaf after the other."""

    leaves: Sequence[Leaf]
    count: int

    @property
    def nbytes(self) -> int:
        return self.count * sum(leaf.nbytes for leaf in self.leaves)

    def views(self, raw: np.ndarray) -> Iterator[np.ndarray]:
        """The leaves `[count, ...]` in memory `raw`."""
        start = 0
        for leaf in self.leaves:
            yield np.ndarray((self.count, *leaf.shape), leaf.dtype, raw, start)
            start += self.count * leaf.nbytes


class _Scratch(threading.local):
    """A thread's memory for one piece at a time, and the leaves in it: fresh memory is slow to touch."""

    def __init__(self, pieces: Sequence[_Piece]):
        memory = np.empty(max(piece.nbytes for piece in pieces), np.uint8)
        self.raw = [memory[: piece.nbytes] for piece in pieces]
        self.leaves = [list(piece.views(raw)) for piece, raw in zip(pieces, self.raw, strict=True)]


class Layout:
    """Packs unrolls that all have the structure of an example, and unpacks them into batches. Thread-safe."""

    def __init__(self, example: Unroll, burn_in: int, compressor: Uncompressed, map: Map):
        """Uses the structure, shapes and dtypes of `example`, and `map` to unpack batches.

        Raises:
          ValueError: an unroll shares more steps with the one before it than it adds.
        """
        self._compressor, self._map = compressor, map
        self._pool = BufferPool()
        steps, self._structure = optree.tree_flatten(self._steps(example))
        state, self._state_structure = optree.tree_flatten(example.initial_state)
        self._leaves = [Leaf(x.shape[1:], x.dtype) for x in steps]
        self._state_leaves = [Leaf(np.shape(x), np.asarray(x).dtype) for x in state]
        self.num_steps = len(steps[0])
        shared = burn_in + 1
        if self.num_steps < 2 * shared:
            raise ValueError(
                f"A burn-in of {burn_in} agent steps is too long for unrolls of {self.num_steps} steps; it "
                "must be less than the unroll length."
            )
        bounds = (0, *cuts(self.num_steps - shared, burn_in))
        self._parts = [slice(*ends) for ends in itertools.pairwise(bounds)]
        pieces = [_Piece(self._leaves, part.stop - part.start) for part in self._parts]
        self._scratch = _Scratch([*pieces, _Piece(self._state_leaves, 1)])

    def describe(self) -> dict[str, Any]:
        """Everything in which layouts can differ, in a form that JSON supports."""
        return {
            "cuts": [part.stop for part in self._parts],
            "steps": [leaf.describe() for leaf in self._leaves],
            "states": [leaf.describe() for leaf in self._state_leaves],
        }

    def pack(self, unroll: Unroll) -> Packed:
        """Compresses an unroll, steps `[S, ...]`, except for its prefix, which stays empty."""
        steps = optree.tree_leaves(self._steps(unroll))
        head, tail = self._pack_steps(steps, _HEAD), self._pack_steps(steps, _TAIL)
        state = self._compress(optree.tree_leaves(unroll.initial_state), _STATE)
        return Packed(b"", head, tail, state)

    def pack_prefix(self, unroll: Unroll) -> bytes:
        """Compresses the prefix of an unroll that continues none in replay."""
        return self._pack_steps(optree.tree_leaves(self._steps(unroll)), _PREFIX)

    def unpack(self, packed: Sequence[Packed], weight: np.ndarray) -> tuple[Sample, np.ndarray]:
        """A time-major batch `[S, B, ...]` with these weights `[B]`, and its policy versions `[S, B]`."""
        size = len(packed)
        steps = [self._pool.array((self.num_steps, size, *x.shape), x.dtype) for x in self._leaves]
        states = [self._pool.array((size, *x.shape), x.dtype) for x in self._state_leaves]

        def unpack(indices: range) -> None:
            for index in indices:
                self._unpack(packed[index], index, steps, states)

        chunks = [range(start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK)]
        collections.deque(self._map(unpack, chunks), maxlen=0)
        prev_action, env, agent, versions = optree.tree_unflatten(self._structure, steps)
        state = optree.tree_unflatten(self._state_structure, states)
        return Sample(prev_action, env, agent, state, weight), versions

    def _unpack(
        self, packed: Packed, index: int, steps: Sequence[np.ndarray], states: Sequence[np.ndarray]
    ) -> None:
        """Decompresses an unroll into place `index` of the arrays of a batch."""
        for piece, part in enumerate(self._parts):
            for array, values in zip(steps, self._decompress(packed[piece], piece), strict=True):
                array[part, index] = values
        for array, values in zip(states, self._decompress(packed.state, _STATE), strict=True):
            array[index] = values[0]

    def _steps(self, unroll: Unroll) -> tuple[Nest, EnvOutput, AgentOutput, np.ndarray]:
        """The parts of the steps that are stored."""
        return unroll.prev_action, unroll.env, unroll.agent._replace(info={}), unroll.policy_version

    def _pack_steps(self, steps: Sequence[np.ndarray], piece: int) -> bytes:
        return self._compress([array[self._parts[piece]] for array in steps], piece)

    def _compress(self, arrays: Sequence[Any], piece: int) -> bytes:
        """The first array's bytes, then the second's, and so on, compressed together."""
        for leaf, array in zip(self._scratch.leaves[piece], arrays, strict=True):
            leaf[...] = array
        return self._compressor.compress(self._scratch.raw[piece])

    def _decompress(self, blob: Blob, piece: int) -> Sequence[np.ndarray]:
        """The inverse of `_compress`; its result is overwritten by the next call in this thread."""
        self._compressor.decompress(blob, self._scratch.raw[piece])
        return self._scratch.leaves[piece]
