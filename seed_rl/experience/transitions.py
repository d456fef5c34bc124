"""Replay of n-step transitions: DQN's (Mnih et al., 2015), or a prioritized one (Schaul et al., 2016)."""

import threading

import numpy as np

from seed_rl.experience import replay_file
from seed_rl.experience.base import (
    Batch,
    ClosedError,
    Experience,
    ReplaySettings,
    Setup,
    StepStore,
    UnrollConfig,
)
from seed_rl.experience.memory import machine_memory, replay_limit
from seed_rl.experience.rate_limiter import RateLimiter
from seed_rl.experience.transition_table import Handle, TransitionTable
from seed_rl.types import AgentOutput, EnvOutput, Nest


class TransitionReplay(Experience):
    """A `TransitionTable` for several threads, which keeps the replay ratio.

    Inference writes steps into it directly, so nothing is inserted. A transition may be drawn as soon as its
    last step is there, and counts as added when it has been handed over.
    """

    def __init__(self, config: ReplaySettings, setup: Setup):
        """Prepares an empty replay.

        Args:
          config: settings.
          setup: what it is made for; the unrolls' `length` is n.

        Raises:
          ValueError: the replay may be larger than the machine's memory, there is too little room for each
            environment, or what is cut is no transitions.
        """
        self._config, self._setup, self.is_saved = config, setup, config.checkpoint_replay
        self._max_bytes = replay_limit(config.replay_max_bytes, machine_memory())
        self._limiter = RateLimiter(config.replay_ratio, setup.batch_size, config.replay_buffer_min_size)
        self._random = np.random.default_rng(setup.seed)
        self._table = self._make_table()
        self._added = 0  # Including those restored, and those that are gone.
        self._closed = False
        self._changed = threading.Condition()
        self.store = TransitionStore(setup.num_envs, setup.unroll, self)

    def __len__(self) -> int:
        """The number of transitions in replay."""
        return len(self._table)

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
            batch = self._table.draw(self._setup.batch_size, self._random)
            self._limiter.sampled()
            self._changed.notify_all()
        return batch

    def batch_ready(self) -> bool:
        """Whether the replay ratio allows drawing a batch."""
        with self._changed:
            return self._is_ready()

    def update_priorities(self, handle: Handle, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of a batch's transitions, except those overwritten in the meantime."""
        with self._changed:
            self._table.update(handle, priorities)

    def figures(self) -> dict[str, float]:
        """Size, memory and the replay ratio as measured since the minimum size was reached."""
        with self._changed:
            figures = {"replay_size": float(len(self)), "replay_mib": self._table.nbytes / 2**20}
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
        with self._changed:
            header = self._table.header() if self.is_saved else None
        if header is None:
            return
        with replay_file.writing(path) as file:
            header.write(file)
            for env_id in range(header.num_envs):
                with self._changed:
                    self._table.save(file, env_id)

    def restore(self, path: str) -> None:
        """Loads what `save` wrote, if the settings ask for it and there is such a file; before any step.

        Raises:
          DamagedError: the file is damaged; nothing of it is used.
          ValueError: the file cannot be read, or was written with other settings.
        """

        def read(file: replay_file.Reader) -> TransitionTable:
            table = self._make_table()
            table.restore(path, file)
            return table

        table = replay_file.read(path, read) if self.is_saved else None
        if table is not None:
            self._table, self._added = table, len(table)
            self._limiter.restored(len(table))

    def _make_table(self) -> TransitionTable:
        setup = self._setup
        return TransitionTable(self._config, setup.unroll, self._max_bytes, setup.num_envs, setup.served)

    def _is_ready(self) -> bool:
        return len(self) > 0 and self._limiter.may_sample()


class TransitionStore(StepStore):
    """Keeps nothing itself but how many steps there were in each environment's stream.

    After a reset, transitions of the interrupted stream that were complete stay in replay.
    """

    keeps_states = False

    def __init__(self, num_envs: int, unroll: UnrollConfig, replay: TransitionReplay):
        """Prepares.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.
          replay: takes the steps.

        Raises:
          ValueError: what is cut is no transitions.
        """
        super().__init__(num_envs, unroll)
        if unroll.every != 1 or unroll.stagger:
            raise ValueError(f"{unroll} cuts no transitions; set period=1 and stagger=False.")
        self._replay = replay

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
        """Adds one step; returns the environments whose transition it completed. See `StepStore.append`."""
        del starting, states
        env_ids = env_ids.astype(np.int64, copy=False)  # Large enough for the number of a slot.
        in_stream = self._count[env_ids]
        step = prev_action, env, agent._replace(info={})  # Of what the agent said, losses need the action.
        completed = self._replay.add(env_ids, step, in_stream, policy_version)
        self._count[env_ids] = in_stream + 1
        return completed.tolist()

    def hand_over(self, completed: list[int]) -> None:
        """Waits until training has caught up with these transitions, which are in replay already."""
        if completed:
            self._replay.wait_for_room(len(completed))
