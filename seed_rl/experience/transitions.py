"""Replay of n-step transitions: DQN's (Mnih et al., 2015), or a prioritized one (Schaul et al., 2016)."""

from collections.abc import Callable

import numpy as np

from seed_rl.experience import replay_file
from seed_rl.experience.base import Batch, ReplaySettings, Setup, StepStore, UnrollConfig
from seed_rl.experience.rate_limiter import LimitedReplay
from seed_rl.experience.transition_table import Handle, TransitionTable
from seed_rl.types import Nest


class TransitionReplay(LimitedReplay):
    """A `TransitionTable` for several threads, which keeps the replay ratio.

    Inference writes steps into it directly, so nothing is inserted. A transition may be drawn as soon as its
    last step is there, and counts as added when it has been handed over.
    """

    def __init__(self, config: ReplaySettings, setup: Setup):
        """Prepares an empty replay; the `length` of the unrolls is n.

        Raises:
          ValueError: the replay may be larger than the machine's memory, there is too little room for each
            environment, or what is cut is no transitions.
        """
        super().__init__(config, setup)
        self._table = TransitionTable(config, setup, self._max_bytes)
        self._added = 0  # Including those restored, and those that are gone.
        self.store = TransitionStore(setup.num_envs, setup.unroll, self)

    def __len__(self) -> int:
        """The number of transitions in replay."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes."""
        return self._table.nbytes

    def add(self, env_ids: np.ndarray, step: Nest, in_stream: np.ndarray, policy_version: int) -> np.ndarray:
        """Stores a step of environments, without waiting; see `TransitionTable.add`."""
        with self._changed:
            return self._table.add(env_ids, step, in_stream, policy_version)

    def wait_for_room(self, count: int) -> None:
        """Counts transitions as added, as the replay ratio allows.

        Raises:
          ClosedError: the replay was closed in the meantime.
        """
        with self._changed:
            while count:
                # If nothing can be drawn, training cannot catch up.
                self._wait_for(lambda: self._limiter.may_insert() or not len(self))
                now = min(count, max(1, self._limiter.room(self._added)))
                count -= now
                self._added += now
                self._limiter.inserted(self._added, now)
                self._changed.notify_all()

    def update_priorities(self, handle: Handle, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of a batch's transitions, except those overwritten in the meantime."""
        with self._changed:
            self._table.update(handle, priorities)

    def save(self, path: str) -> None:
        """Writes everything to a file, if the settings enable it; may keep other threads waiting."""
        with self._changed:
            header = self._table.header() if self.is_saved else None
        if header is None:
            return
        with replay_file.writing(path) as file:
            header.write(file)
            for env_id in range(header.num_envs):
                with self._changed:
                    self._table.save(file, env_id)

    def _draw(self) -> Callable[[], Batch]:
        batch = self._table.draw(self._setup.batch_size, self._random)
        return lambda: batch

    def _restore(self, path: str, file: replay_file.Reader) -> bool:
        table = TransitionTable(self._config, self._setup, self._max_bytes)
        table.restore(path, file)
        self._table, self._added = table, len(table)
        return True


class TransitionStore(StepStore):
    """Keeps nothing itself but how many steps there were in each environment's stream.

    After a reset, transitions of the interrupted stream that were complete stay in replay.
    """

    keeps_states = False

    def __init__(self, num_envs: int, unroll: UnrollConfig, replay: TransitionReplay):
        """Prepares; `replay` takes the steps.

        Raises:
          ValueError: what is cut is no transitions.
        """
        super().__init__(num_envs, unroll)
        if unroll.every != 1 or unroll.stagger:
            raise ValueError(f"{unroll} cuts no transitions; set period=1 and stagger=False.")
        self._replay = replay

    def append(
        self, env_ids: np.ndarray, step: Nest, starting: np.ndarray, states: Nest, policy_version: int
    ) -> list[int]:
        """Adds one step; returns the environments whose transition it completed. See `StepStore.append`."""
        del starting, states
        env_ids = env_ids.astype(np.int64, copy=False)  # Large enough for the number of a slot.
        in_stream = self._count[env_ids]
        prev_action, env, agent = step
        step = prev_action, env, agent._replace(info={})  # Of the agent's output, losses need the action.
        completed = self._replay.add(env_ids, step, in_stream, policy_version)
        self._count[env_ids] = in_stream + 1
        return completed.tolist()

    def hand_over(self, completed: list[int]) -> None:
        """Waits until training has caught up with these transitions, which are in replay already."""
        if completed:
            self._replay.wait_for_room(len(completed))
