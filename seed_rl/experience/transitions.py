"""Replay of n-step transitions: DQN's (Mnih et al., 2015), or a prioritized one (Schaul et al., 2016)."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from seed_rl.experience import transition_file
from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.experience.config import TransitionReplayConfig
from seed_rl.experience.memory_limit import machine_memory, replay_limit
from seed_rl.experience.rate_limiter import RateLimiter
from seed_rl.experience.replay_file import Writer
from seed_rl.experience.transition_store import TransitionStore
from seed_rl.experience.transition_table import Handle, TransitionTable
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import Unroll


class TransitionReplay(Experience):
    """A `TransitionTable` for several threads, which keeps the replay ratio.

    Inference writes steps into it directly, so nothing is inserted. A transition may be drawn as soon as its
    last step is there, and counts as added when it has been handed over.
    """

    def __init__(self, config: TransitionReplayConfig, batch_size: int, unroll: UnrollConfig, seed: int):
        """Prepares an empty replay.

        Args:
          config: settings.
          batch_size: B, transitions in a batch.
          unroll: how transitions are cut: `length` is n.
          seed: seed for random draws.

        Raises:
          ValueError: the replay may be larger than the machine's memory.
        """
        self._config, self._batch_size, self.is_saved = config, batch_size, config.checkpoint_replay
        self._unroll = unroll
        self._max_bytes = replay_limit(config.replay_max_bytes, machine_memory())
        self._limiter = RateLimiter(config.replay_ratio, batch_size, config.replay_buffer_min_size)
        self._random = np.random.default_rng(seed)
        self._table: TransitionTable | None = None
        self._added = 0  # Including those restored, and those that are gone.
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """The number of transitions in replay."""
        return len(self._table) if self._table is not None else 0

    def store(
        self,
        num_envs: int,
        unroll: UnrollConfig,
        insert: Callable[[list[Unroll]], None] | None = None,
        num_served: int | None = None,
    ) -> TransitionStore:
        """The store that writes into this replay; see `Experience.store`.

        Raises:
          ValueError: there is too little room for each environment, or other environments were restored.
        """
        del insert
        served = num_envs if num_served is None else num_served
        if self._table is None:
            self._table = self._make_table(num_envs, served)
        elif (num_envs, served) != (self._table.num_envs, self._table.num_served):
            raise ValueError(
                f"The restored replay contains transitions of {self._table.num_served} environments, not of "
                f"{served}; resume with as many, or move its file away to continue with an empty replay."
            )
        return TransitionStore(num_envs, unroll, self)

    def add(
        self,
        env_ids: np.ndarray,
        step: tuple[list[np.ndarray], Any],
        in_stream: np.ndarray,
        policy_version: int,
    ) -> np.ndarray:
        """Stores a step of environments, without waiting; see `TransitionTable.add`."""
        assert self._table is not None
        with self._changed:
            return self._table.add(env_ids, step, in_stream, policy_version)

    def wait_for_room(self, count: int) -> None:
        """Counts transitions as added, as the replay ratio allows.

        Raises:
          ClosedError: the replay was closed in the meantime.
        """
        with self._changed:
            while count:
                # Where nothing can be drawn, training cannot catch up.
                self._changed.wait_for(lambda: self._closed or self._limiter.may_insert() or not len(self))
                if self._closed:
                    raise ClosedError
                now = min(count, max(1, self._limiter.room(self._added)))
                count -= now
                self._added += now
                self._limiter.inserted(self._added, now)
                self._changed.notify_all()

    def sample(self) -> Batch:
        """Draws a batch; see `TransitionTable.draw`.

        Raises:
          ClosedError: the replay was closed in the meantime.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._is_ready())
            if self._closed:
                raise ClosedError
            assert self._table is not None
            batch = self._table.draw(self._batch_size, self._random)
            self._limiter.sampled()
            self._changed.notify_all()
        return batch

    def batch_ready(self) -> bool:
        """Whether the replay ratio allows drawing a batch."""
        with self._changed:
            return self._is_ready()

    def update_priorities(self, handle: Handle, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of a batch's transitions, except those overwritten in the meantime."""
        assert self._table is not None
        with self._changed:
            self._table.update(handle, priorities)

    def figures(self) -> dict[str, float]:
        """Size, memory and the replay ratio as measured since the minimum size was reached."""
        with self._changed:
            nbytes = self._table.nbytes if self._table is not None else 0
            figures = {"replay_size": float(len(self)), "replay_mib": nbytes / 2**20}
            if (ratio := self._limiter.measured_ratio) is not None:
                figures["replay_ratio"] = ratio
        return figures

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def save(self, path: str) -> None:
        """Writes everything to a file, if the settings ask for it; may keep other threads waiting."""
        table = self._table
        if table is None or not self._config.checkpoint_replay:
            return
        with self._changed:
            header = table.header()

        def save(file: Writer, env_id: int) -> None:
            with self._changed:
                table.save(file, env_id)

        if header is not None:
            transition_file.write(path, header, save)

    def restore(self, path: str) -> None:
        """Loads what `save` wrote, if the settings ask for it and there is such a file; before `store`.

        Raises:
          DamagedError: the file is damaged; nothing of it is used.
          ValueError: the file cannot be read, or was written with other settings.
        """
        header = transition_file.read_header(path) if self._config.checkpoint_replay else None
        if header is None:
            return
        table = self._make_table(header.num_envs, header.num_served)
        table.prepare(path, header)
        transition_file.read(path, table.restore)
        self._table, self._added = table, len(table)
        self._limiter.restored(len(table))

    def _make_table(self, num_envs: int, num_served: int) -> TransitionTable:
        return TransitionTable(self._config, self._unroll, self._max_bytes, num_envs, num_served)

    def _is_ready(self) -> bool:
        return len(self) > 0 and self._limiter.may_sample()
