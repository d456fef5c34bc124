"""Prioritized replay on the learner (Schaul et al., 2016; of sequences: Kapturowski et al., "R2D2", 2019)."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience import replay_file
from seed_rl.experience.base import Batch, Closable, ClosedError, MisfitError, ReplaySettings, Setup
from seed_rl.experience.layout import COMPRESSORS, Blob, Layout, Packed, cuts
from seed_rl.experience.memory import Arena, check_fits
from seed_rl.experience.priorities import Draws, SumTree
from seed_rl.experience.rate_limiter import LimitedReplay
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.metrics.idle_time import INTAKE_FOR_UNROLLS, Waits
from seed_rl.types import Unroll

# Memory that an entry takes besides its blobs, and a blob besides its bytes: a tuple, integers, slots in
# lists, the view of the blob, and the allocator's own overhead.
_ENTRY_OVERHEAD_BYTES = 256
_BLOB_OVERHEAD_BYTES = 208

# Size of the memory segments that hold the blobs; a low limit in bytes makes it smaller.
_SEGMENT_BYTES = 8 * 2**20
_LEAST_SEGMENTS = 32


class _Last(NamedTuple):
    """The last unroll of an environment: its number, its stream, and its first step in that stream."""

    serial: int
    stream: int
    first_step: int


class Replay(LimitedReplay):
    """Keeps the latest unrolls, at most `capacity` of them, in at most `max_bytes`.

    Unrolls are numbered as they come in; number n is at index `n % capacity`. The oldest are removed first,
    so the numbers in replay are always a range, and an update of priorities can detect unrolls that are gone.
    """

    def __init__(
        self, config: ReplaySettings, setup: Setup, compression: str = "zstd", threads: int | None = None
    ):
        """Prepares an empty replay.

        Args:
          config: settings.
          setup: what it is made for.
          compression: of the unrolls, one of `COMPRESSORS`.
          threads: that compress and decompress; 0: those that insert and draw. None: as many as pay.

        Raises:
          ValueError: the replay would be larger than the machine's memory or its own limit.
        """
        super().__init__(config, setup)
        size, self._compression = config.replay_buffer_size, compression
        self._length, self._burn_in = setup.unroll.length, setup.unroll.burn_in
        threads = _default_threads() if threads is None else threads
        self._threads = ThreadPoolExecutor(threads, "replay") if threads else None
        self._layout: Layout | None = None
        self._restored_layout: dict[str, Any] | None = None
        segment_bytes = min(_SEGMENT_BYTES, self._max_bytes // _LEAST_SEGMENTS)
        self._arena = Arena(segment_bytes)
        tree_bytes = SumTree.bytes_for(size)
        check_fits(f"The tables alone of --replay_buffer_size={size} take", tree_bytes, self._max_bytes)
        exponents = config.priority_exponent, config.importance_sampling_exponent
        self._draws = Draws(SumTree(size), *exponents)
        self._entries: list[Packed | None] = [None] * size
        self._is_continued = np.zeros(size, bool)  # Whether an unroll's tail is also another's prefix.
        self._last: dict[int, _Last] = {}
        self._num_restored = 0
        self._oldest = self._next = 0  # Numbers of the oldest unroll in replay and the next to come.
        # The newest and the oldest segment are only partly in use.
        tables = tree_bytes + sys.getsizeof(self._entries) + self._is_continued.nbytes
        self._bytes = tables + 2 * segment_bytes
        # Priorities and compression take long: with a thread of their own, no action waits for them.
        self._intake = Intake(self.insert, setup.intake_waits) if setup.intake_waits else None
        self.background = self._intake.run if self._intake else None
        insert = self._intake.insert if self._intake else self.insert
        self.store = UnrollStore(setup.num_envs, setup.unroll, insert)

    def __len__(self) -> int:
        """The number of unrolls in replay."""
        return self._next - self._oldest

    @property
    def nbytes(self) -> int:
        """Memory of everything in replay, in bytes."""
        return self._bytes

    def insert(self, unrolls: list[Unroll]) -> None:
        """Adds unrolls one at a time, as the replay ratio allows.

        Raises:
          ClosedError: the replay was closed in the meantime.
          ValueError: the memory limit is reached before the minimum size, or the unrolls differ in layout
            from those restored.
        """
        layout = self._require_layout(unrolls[0])
        # Compresses outside the lock, and while it waits for the ratio.
        packed = self._map(layout.pack, unrolls)
        priorities = self._setup.initial_priorities(unrolls)
        for unroll, priority, own in zip(unrolls, priorities, packed, strict=True):
            self._insert(layout, unroll, own, priority)

    def update_priorities(self, handle: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of a batch's unrolls, except those removed in the meantime."""
        with self._changed:
            there = handle >= self._oldest
            self._draws.update(handle[there] % self._config.replay_buffer_size, priorities[there])

    def close(self) -> None:
        """Ends every wait, and the threads when they are done with work that has begun."""
        super().close()
        if self._intake:
            self._intake.close()
        if self._threads:
            self._threads.shutdown()

    def save(self, path: str) -> None:
        """Writes everything to a file, if the settings enable it; other threads continue meanwhile."""
        layout = self._layout
        if layout is None or not self.is_saved:
            return
        with self._changed:
            serials = range(self._oldest, self._next)
            priorities = self._draws.get(np.array(serials, np.int64) % self._config.replay_buffer_size)
            entries = [self._entry(serial) for serial in serials]
        settings = {**layout.describe(), "compression": self._compression}
        replay_file.Unrolls(settings, priorities, entries).write(path)

    def _map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        """The results for all items, in order; the threads, if there are any, begin at once."""
        if self._threads is None:
            return map(function, items)
        try:
            futures = [self._threads.submit(function, item) for item in items]
        except RuntimeError:
            if self._is_closed:
                raise ClosedError from None
            raise  # No more threads can be started.
        return (future.result() for future in futures)

    def _draw(self) -> Callable[[], Batch]:
        indices, weights = self._draws.draw(self._setup.batch_size, self._random)
        serials = self._oldest + (indices - self._oldest) % self._config.replay_buffer_size
        packed = [self._entry(serial) for serial in serials]
        assert self._layout is not None
        layout = self._layout
        is_restored = serials < self._num_restored

        def unpack() -> Batch:
            sample, versions = layout.unpack(packed, weights)
            # Higher ones than the checkpoint's are those of a learner that has gone on after it and is lost.
            np.minimum(versions, self._setup.updates, out=versions, where=is_restored)
            return Batch(sample, versions, serials)

        return unpack

    def _restore(self, path: str, file: replay_file.Reader) -> bool:
        contents = replay_file.Unrolls.read(file, self._arena.put)
        mine = {"compression": self._compression, "cuts": cuts(self._length, self._burn_in)}
        found = {name: contents.settings.get(name) for name in ("compression", "cuts")}
        replay_file.check_same(path, "unrolls or compression", found, mine)
        self._restored_layout = {k: v for k, v in contents.settings.items() if k != "compression"}
        newest = slice(-self._config.replay_buffer_size, None)
        by_tail: dict[int, int] = {}
        for packed, priority in zip(contents.entries[newest], contents.priorities[newest], strict=True):
            by_tail[id(packed.tail)] = self._next
            self._add(packed, priority, by_tail.get(id(packed.prefix)))
        self._num_restored = self._next if self._setup.updates else 0
        return True

    def _insert(self, layout: Layout, unroll: Unroll, own: Packed, priority: float) -> None:
        """Adds an unroll, packed except for its prefix, when the replay ratio allows it."""
        with self._changed:
            self._wait_for(self._limiter.may_insert)
            before = self._unroll_before(unroll)
            shared = None if before is None else self._entry(before).tail
        prefix = layout.pack_prefix(unroll) if shared is None else shared
        with self._changed:
            self._last[unroll.env_id] = _Last(self._next, unroll.stream, unroll.first_step)
            prefix = self._arena.put(prefix) if shared is None else shared
            packed = Packed(prefix, *map(self._arena.put, own[1:]))
            self._add(packed, self._draws.scaled(priority), before)
            self._limiter.inserted(len(self))
            self._changed.notify_all()

    def _entry(self, serial: int) -> Packed:
        entry = self._entries[serial % self._config.replay_buffer_size]
        assert entry is not None
        return entry

    def _require_layout(self, unroll: Unroll) -> Layout:
        if self._layout is None:
            layout = Layout(unroll, self._burn_in, COMPRESSORS[self._compression](), self._map)
            if self._restored_layout not in (None, layout.describe()):
                raise MisfitError(
                    "The restored replay contains other observations or recurrent states than this run's; "
                    "move its file away, or resume without --checkpoint_replay."
                )
            self._layout = layout
        return self._layout

    def _unroll_before(self, unroll: Unroll) -> int | None:
        """The number of the unroll that this one continues, if it is still in replay."""
        last = self._last.get(unroll.env_id)
        if last is None or unroll.stream != last.stream or last.serial < self._oldest:
            return None
        return last.serial if unroll.first_step == last.first_step + self._length else None

    def _add(self, packed: Packed, scaled_priority: float, before: int | None) -> None:
        """Adds an unroll, which continues number `before`, and removes the oldest to make room."""
        capacity = self._config.replay_buffer_size
        if before is not None and before >= self._oldest and self._entry(before).tail is packed.prefix:
            self._is_continued[before % capacity] = True
            self._bytes -= _nbytes(packed.prefix)
        size = _ENTRY_OVERHEAD_BYTES + sum(map(_nbytes, packed))
        while len(self) == capacity or (len(self) and self._bytes + size > self._max_bytes):
            self._let_go()
        index = self._next % capacity
        self._entries[index], self._is_continued[index] = packed, False
        self._draws.put(np.array([index]), np.array([scaled_priority]))
        self._bytes += size
        self._next += 1

    def _let_go(self) -> None:
        """Removes the oldest unroll."""
        if not self._limiter.started and len(self) < self._config.replay_buffer_min_size:
            raise MisfitError(
                f"Replay reached --replay_max_bytes ({self._max_bytes / 2**30:.2f} GiB) at {len(self)} "
                f"unrolls, fewer than --replay_buffer_min_size={self._config.replay_buffer_min_size}; raise "
                "the first or lower the second."
            )
        index = self._oldest % self._config.replay_buffer_size
        packed = self._entry(self._oldest)
        # The tail remains, as the prefix of the unroll that continues this one.
        gone = packed if not self._is_continued[index] else (packed.prefix, packed.head, packed.state)
        self._bytes -= _ENTRY_OVERHEAD_BYTES + sum(map(_nbytes, gone))
        self._entries[index] = None
        self._draws.put(np.array([index]), np.zeros(1))
        self._oldest += 1


def _default_threads() -> int:
    """One for each core, at most 5: the rest of a large machine is for inference and training."""
    # macOS does not report which cores a process may use.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 5) if cores > 1 else 0


def _nbytes(blob: Blob) -> int:
    return len(blob) + _BLOB_OVERHEAD_BYTES


# Unrolls that may wait. More would only take memory: sooner or later, inference has to wait anyway.
_CAPACITY = 32


class Intake(Closable):
    """Takes unrolls from inference threads; a separate thread, which calls `run`, inserts them.

    Replay computes priorities and compresses as unrolls come in. On an inference thread, that would keep
    actors waiting for their actions. Unrolls are inserted in the order in which they arrived. Those that are
    still waiting at `close` are lost.
    """

    def __init__(self, insert: Callable[[list[Unroll]], None], waits: Waits):
        """Prepares an empty intake; `insert` takes the unrolls, `waits` counts those of `run`."""
        super().__init__()
        self._insert, self._waits = insert, waits
        self._waiting: list[Unroll] = []

    def insert(self, unrolls: list[Unroll]) -> None:
        """Takes finished unrolls; blocks while too many are waiting (back-pressure).

        Raises:
          ClosedError: the intake was closed in the meantime.
        """
        with self._changed:
            self._wait_for(lambda: len(self._waiting) < _CAPACITY)
            self._waiting += unrolls
            self._changed.notify_all()

    def run(self) -> None:
        """Inserts unrolls until the intake or where they go is closed.

        Raises:
          ClosedError: either has been closed.
        """
        while True:
            with self._changed:
                with self._waits(INTAKE_FOR_UNROLLS):
                    self._wait_for(lambda: bool(self._waiting))
                unrolls, self._waiting = self._waiting, []
                self._changed.notify_all()
            self._insert(unrolls)
