"""Writes the steps of every environment into the training batches that they will be."""

import collections
import itertools
import threading
from typing import Any, Protocol

import numpy as np
import optree

from seed_rl.experience.base import Batch
from seed_rl.experience.slabs import Slabs
from seed_rl.experience.step_store import StepStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest, Sample

# Slabs besides those that are queued: to train on, to follow, and two that are only partly filled.
_MORE_SLABS = 4

# Memory for more queued slabs than this is found when it is needed: a long queue may never be full.
_MOST_QUEUED = 8


class BatchQueue(Protocol):
    """Where complete batches go. Thread-safe."""

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Counts completed unrolls and takes batches, each of unrolls counted now or before; never blocks."""

    def wait_for_room(self) -> None:
        """Waits while too many unrolls are waiting; raises ClosedError when the queue has been closed."""


class SlabStore(StepStore):
    """Fills slabs `[S, B, ...]`, each of which becomes one batch (see `slabs.Slabs`).

    An unroll gets a column when it begins, in the order of beginning, and its steps are written there. As
    soon as B unrolls are complete, they make a batch. Usually they fill one slab. Otherwise the slab with
    most of them exchanges its other columns for complete ones of other slabs. So an environment that is
    slow, or frozen, holds nobody up: its column moves on to a slab that is filled later.

    No thread writes while columns are exchanged, and none waits for a lock while it writes.
    """

    def __init__(
        self, num_envs: int, unroll: UnrollConfig, batch_size: int, queue: BatchQueue, queued: int = 1
    ):
        """Prepares an empty store.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.
          batch_size: B, unrolls in a batch.
          queue: takes the batches.
          queued: batches that are in it when it is full.
        """
        super().__init__(num_envs, unroll)
        self._batch_size, self._queue = batch_size, queue
        in_progress = num_envs * self._stored / self._period
        self._slab_count = int(in_progress // batch_size) + min(queued, _MOST_QUEUED) + _MORE_SLABS
        self._slabs: Slabs | None = None
        self._structure: Any = None
        # The column of each environment's newest unroll, of the one before it, and so on; -1: none, or
        # complete. There are as many as can be in progress at the same time.
        num_unrolls = -(-self._stored // self._period)
        self._columns = [np.full(num_envs, -1, np.int64) for _ in range(num_unrolls)]
        # By column.
        self._env_id = np.empty(0, np.int64)  # -1 where no unroll is in progress.
        self._is_complete = np.empty(0, bool)
        self._version = np.empty(0, np.int64)
        self._open: list[int] = []  # Slabs that are being filled, the oldest first.
        self._vacant: collections.deque[int] = collections.deque()  # Columns in them that are in no use.
        self._num_complete = 0
        self._writing = 0  # Threads.
        self._is_moving = False  # Whether columns are to be exchanged as soon as nobody writes.
        self._changed = threading.Condition()

    def reset(self, env_ids: np.ndarray, stream: int) -> None:
        """Drops unfinished unrolls; the next ones to begin take their columns. See `StepStore.reset`."""
        super().reset(env_ids, stream)
        with self._changed:
            for by_env in self._columns:
                columns = by_env[env_ids]
                columns = columns[columns >= 0]
                by_env[env_ids] = self._env_id[columns] = -1
                self._vacant.extendleft(reversed(columns.tolist()))

    def append(
        self,
        env_ids: np.ndarray,
        prev_action: np.ndarray,
        env: EnvOutput,
        agent: AgentOutput,
        starting: np.ndarray,
        states: Nest,
        policy_version: int,
    ) -> list[int]:
        """Adds one step, and returns the columns that it completed; see `StepStore.append`."""
        env_ids = env_ids.astype(np.intp, copy=False)  # Once here; NumPy would do it for each array.
        leaves, structure = optree.tree_flatten((prev_action, env, agent))
        state_leaves, state_structure = optree.tree_flatten(states)
        with self._changed:
            while self._is_moving:
                self._changed.wait()
            if self._slabs is None:
                shape = self._stored, self._batch_size
                self._slabs = Slabs(shape, self._slab_count, leaves, state_leaves)
                self._structure = structure, state_structure
            if len(starting):
                self._begin(env_ids[starting], policy_version)
            self._writing += 1
        completed: list[int] = []
        try:
            completed = self._write(env_ids, leaves, starting, state_leaves)
        finally:
            with self._changed:
                self._writing -= 1
                if completed or self._is_moving:
                    self._finish(completed)
        return completed

    def hand_over(self, completed: list[int]) -> None:
        """Waits until there is room for unrolls, which are in their batches already."""
        if completed:
            self._queue.wait_for_room()

    def _begin(self, env_ids: np.ndarray, policy_version: int) -> None:
        """Gives columns to the next unrolls of these environments."""
        while len(self._vacant) < len(env_ids):
            self._open_slab()
        columns = [self._vacant.popleft() for _ in env_ids]
        for newer, older in reversed(list(itertools.pairwise(self._columns))):
            older[env_ids] = newer[env_ids]
        self._columns[0][env_ids] = columns
        self._env_id[columns] = env_ids
        self._version[columns] = policy_version

    def _open_slab(self) -> None:
        assert self._slabs is not None
        slab, size = self._slabs.take(), self._batch_size
        self._open.append(slab)
        if (missing := len(self._slabs) * size - len(self._env_id)) > 0:
            self._env_id = np.concatenate([self._env_id, np.full(missing, -1)])
            self._is_complete = np.concatenate([self._is_complete, np.zeros(missing, bool)])
            self._version = np.concatenate([self._version, np.zeros(missing, np.int64)])
        self._vacant.extend(range(slab * size, slab * size + size))

    def _write(
        self, env_ids: np.ndarray, leaves: list[Any], starting: np.ndarray, states: list[Any]
    ) -> list[int]:
        """Writes a step into every column that it belongs to; returns those that it completes."""
        assert self._slabs is not None
        count = self._count[env_ids]
        step = count % self._period  # Of the newest unroll.
        if len(starting):
            self._slabs.write_states(self._columns[0][env_ids[starting]], states)
        for by_env in self._columns:
            columns = by_env[env_ids]
            rows = (columns >= 0).nonzero()[0]
            if len(rows) == len(env_ids):
                self._slabs.write_steps(columns, step, leaves)
            elif len(rows):
                self._slabs.write_steps(columns[rows], step[rows], [leaf[rows] for leaf in leaves])
            step += self._period
        self._count[env_ids] = count + 1
        if not len(rows):
            return []
        # Only of the oldest unrolls in progress can it have been the last step.
        rows = rows[step[rows] - self._period == self._stored - 1]
        by_env[env_ids[rows]] = -1
        return columns[rows].tolist()

    def _finish(self, completed: list[int]) -> None:
        """Marks columns as complete, and makes batches if there are enough."""
        self._env_id[completed] = -1
        self._is_complete[completed] = True
        self._num_complete += len(completed)
        batches = []
        self._is_moving = False
        while self._num_complete >= self._batch_size and not self._is_moving:
            in_each = [int(self._of(slab, self._is_complete).sum()) for slab in self._open]
            slab = self._open[in_each.index(max(in_each))]
            if max(in_each) < self._batch_size:
                if self._writing:
                    self._is_moving = True
                    break
                self._fill(slab)
            batches.append(self._batch(slab))
        if completed or batches:
            self._queue.add(len(completed), batches)
        self._changed.notify_all()

    def _of(self, slab: int, by_column: np.ndarray) -> np.ndarray:
        """The part for the columns of a slab, `[B]`."""
        return by_column[slab * self._batch_size : (slab + 1) * self._batch_size]

    def _fill(self, slab: int) -> None:
        """Exchanges all columns of a slab that are not complete for complete ones, of the oldest slabs."""
        assert self._slabs is not None
        others = [
            place + other * self._batch_size
            for other in self._open
            if other != slab
            for place in self._of(other, self._is_complete).nonzero()[0].tolist()
        ]
        lacking = (~self._of(slab, self._is_complete)).nonzero()[0] + slab * self._batch_size
        moved = dict(zip(lacking.tolist(), others, strict=False))
        for column, other in moved.items():
            self._slabs.exchange(column, other, self._move(column, other))
        columns, others = list(moved), list(moved.values())
        for by_column in (self._env_id, self._is_complete, self._version):
            by_column[columns], by_column[others] = by_column[others], by_column[columns]
        self._vacant = collections.deque(moved.get(column, column) for column in self._vacant)

    def _move(self, column: int, other: int) -> int:
        """Notes that the unroll in progress in a column moves; returns how many steps of it there are."""
        env_id = self._env_id[column]
        if env_id < 0:
            return 0
        age = [by_env[env_id] for by_env in self._columns].index(column)
        self._columns[age][env_id] = other
        return int((self._count[env_id] - 1) % self._period) + age * self._period + 1

    def _batch(self, slab: int) -> Batch:
        """The batch that a complete slab is."""
        assert self._slabs is not None
        self._open.remove(slab)
        self._of(slab, self._is_complete)[:] = False
        self._num_complete -= self._batch_size
        leaves, states = self._slabs.lend(slab)
        structure, state_structure = self._structure
        prev_action, env, agent = optree.tree_unflatten(structure, leaves)
        state = optree.tree_unflatten(state_structure, states)
        weight = np.ones(self._batch_size, np.float32)
        return Batch(
            Sample(prev_action, env, agent, state, weight), self._of(slab, self._version).copy(), None
        )
