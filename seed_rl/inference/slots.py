"""Who plays which environments: a table of environment ids and the actor processes that hold them."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import numpy as np

# How long a task is kept for an actor that has asked for it and makes its environments.
RESERVATION_SECS = 60.0


class SlotRefusedError(Exception):
    """Environments cannot be given to this actor; `out_of_range` tells the two reasons apart."""

    def __init__(self, sentence: str, out_of_range: bool):
        super().__init__(sentence)
        self.out_of_range = out_of_range


@dataclasses.dataclass(frozen=True)
class Lease:
    """Environments `first_env` to `first_env + num_envs - 1`, held by one stream of one actor process.

    `is_new_run` says that another process (or none) held them before: they start clean.
    `is_restart` says that another process did.
    """

    key: int
    run_id: int
    first_env: int
    num_envs: int
    is_new_run: bool
    is_restart: bool

    @functools.cached_property
    def env_ids(self) -> np.ndarray:
        """int32 `[num_envs]`."""
        return np.arange(self.first_env, self.first_env + self.num_envs, dtype=np.int32)


class _Reservation(NamedTuple):
    """Environments that an actor was told to take, and until when (monotonic seconds) they are its own."""

    first_env: int
    num_envs: int
    until: float


class Slots:
    """The table. Not thread-safe: the server's event loop owns it."""

    def __init__(self, num_envs: int):
        """Starts with `num_envs` free environments."""
        self._num_envs = num_envs
        self._live: dict[int, Lease] = {}
        self._reserved: dict[int, _Reservation] = {}  # By run id.
        self._last_run: dict[int, int] = {}  # Environment id -> run id of its last holder.
        self._keys = itertools.count()

    def holders(self, first_env: int, num_envs: int) -> list[Lease]:
        """Live leases that overlap these environments."""
        return [lease for lease in self._live.values() if _overlap(lease, first_env, num_envs)]

    def reserve(self, run_id: int, num_envs: int, task: int, now: float) -> tuple[int, bool]:
        """Picks a task that no other actor holds, and keeps it for this one until it claims its environments.

        Args:
          run_id: of the actor's process.
          num_envs: environments of a task.
          task: what it had before, which it gets again where that is free; -1: none.
          now: monotonic seconds.

        Returns:
          The task, and whether another process had one of its environments after this one.

        Raises:
          SlotRefusedError: one sentence; no run of this size fits such an actor (out of range), or all
            environments are taken.
        """
        num_tasks = self._num_envs // num_envs if num_envs > 0 else 0
        if num_tasks == 0:
            raise SlotRefusedError(
                f"An actor of {num_envs} environments does not fit the learner's {self._num_envs}; lower "
                "--env_batch_size or raise the learner's --num_envs.",
                out_of_range=True,
            )
        own = self._reserved.pop(run_id, None)
        others = {run: entry for run, entry in self._reserved.items() if entry.until > now}
        self._reserved = others
        first_choices = [task] if 0 <= task < num_tasks else []
        if own and own.num_envs == num_envs:
            first_choices.append(own.first_env // num_envs)
        for candidate in (*first_choices, *range(num_tasks)):
            first_env = candidate * num_envs
            taken = any(lease.run_id != run_id for lease in self.holders(first_env, num_envs))
            if not taken and not any(_overlap(entry, first_env, num_envs) for entry in others.values()):
                self._reserved[run_id] = _Reservation(first_env, num_envs, now + RESERVATION_SECS)
                return candidate, self._had_others(run_id, range(first_env, first_env + num_envs))
        raise SlotRefusedError(
            f"All {self._num_envs} environments of the learner are taken by other actors; start fewer of "
            "them or raise the learner's --num_envs.",
            out_of_range=False,
        )

    def claim(self, run_id: int, task: int, first_env: int, num_envs: int) -> Lease:
        """Gives environments to a stream; leases of the same process on them must have been released.

        Raises:
          SlotRefusedError: one sentence; out of range, or held by a live actor.
        """
        if first_env < 0 or num_envs < 1 or first_env + num_envs > self._num_envs:
            raise SlotRefusedError(
                f"Task {task} is out of range: its environments {first_env} to {first_env + num_envs - 1} "
                f"are not among the learner's 0 to {self._num_envs - 1}; lower --task or raise the "
                "learner's --num_envs.",
                out_of_range=True,
            )
        if self.holders(first_env, num_envs):
            raise SlotRefusedError(
                f"Task {task} is taken by a live actor; give this one another --task or end the other.",
                out_of_range=False,
            )
        env_ids = range(first_env, first_env + num_envs)
        lease = Lease(
            next(self._keys),
            run_id,
            first_env,
            num_envs,
            is_new_run=any(self._last_run.get(env) != run_id for env in env_ids),
            is_restart=self._had_others(run_id, env_ids),
        )
        self._live[lease.key] = lease
        self._last_run |= dict.fromkeys(env_ids, run_id)
        self._settle(run_id)
        return lease

    def _had_others(self, run_id: int, env_ids: range) -> bool:
        """Whether another process was the last that held one of these environments."""
        return any(self._last_run.get(env, run_id) != run_id for env in env_ids)

    def _settle(self, run_id: int) -> None:
        """Ends a reservation whose environments the actor has all claimed."""
        reserved = self._reserved.get(run_id)
        if reserved:
            held = self.holders(reserved.first_env, reserved.num_envs)
            if sum(lease.num_envs for lease in held if lease.run_id == run_id) >= reserved.num_envs:
                del self._reserved[run_id]

    def release(self, lease: Lease) -> None:
        """Frees the environments of a lease; releasing twice does nothing."""
        self._live.pop(lease.key, None)


def _overlap(entry: Lease | _Reservation, first_env: int, num_envs: int) -> bool:
    return entry.first_env < first_env + num_envs and first_env < entry.first_env + entry.num_envs
