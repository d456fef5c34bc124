"""Who plays which environments: a table of environment ids and the actor processes that hold them."""

import dataclasses
import functools
import itertools

import numpy as np


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


class Slots:
    """The table. Not thread-safe: the server's event loop owns it."""

    def __init__(self, num_envs: int):
        """Starts with `num_envs` free environments."""
        self._num_envs = num_envs
        self._live: dict[int, Lease] = {}
        self._last_run: dict[int, int] = {}  # first_env -> run id of its last holder.
        self._keys = itertools.count()

    def holders(self, first_env: int, num_envs: int) -> list[Lease]:
        """Live leases that overlap these environments."""
        end = first_env + num_envs
        return [s for s in self._live.values() if s.first_env < end and first_env < s.first_env + s.num_envs]

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
        last = self._last_run.get(first_env)
        lease = Lease(
            next(self._keys),
            run_id,
            first_env,
            num_envs,
            is_new_run=last != run_id,
            is_restart=last is not None and last != run_id,
        )
        self._live[lease.key] = lease
        self._last_run[first_env] = run_id
        return lease

    def release(self, lease: Lease) -> None:
        """Frees the environments of a lease; releasing twice does nothing."""
        self._live.pop(lease.key, None)
