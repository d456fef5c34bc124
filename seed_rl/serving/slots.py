"""Which actor plays which environments: a table of environment ids and the processes that hold them.

Its arrays are indexed by environment id, so a decision costs the same however many actors there are.
"""

import dataclasses
import functools
import itertools

import numpy as np

# An actor asks for a task, makes its environments, which may take minutes, and claims them. A task that is
# still not claimed after the first time goes to another actor if nothing else is free; after the second time
# it is free.
RESERVATION_SECS = 60.0
LONGEST_RESERVATION_SECS = 600.0

_FREE = -1


class SlotRefusedError(Exception):
    """Environments cannot be given to this actor; `out_of_range` distinguishes the two reasons."""

    def __init__(self, sentence: str, out_of_range: bool):
        super().__init__(sentence)
        self.out_of_range = out_of_range


@dataclasses.dataclass(frozen=True)
class Lease:
    """Environments `first_env` to `first_env + num_envs - 1`, held by one stream of one actor process.

    `actor_id` identifies the process, `is_restart` says that another process held some of them before.
    """

    key: int
    actor_id: int
    first_env: int
    num_envs: int
    is_restart: bool

    @functools.cached_property
    def env_ids(self) -> np.ndarray:
        """int32 `[num_envs]`."""
        return np.arange(self.first_env, self.first_env + self.num_envs, dtype=np.int32)


class Slots:
    """The table of environments. Not thread-safe: the server's event loop owns it."""

    def __init__(self, num_envs: int, num_eval_envs: int = 0, served: range | None = None):
        """Starts with all environments free.

        Args:
          num_envs: environments of the run.
          num_eval_envs: how many of them, the last ones, only evaluate.
          served: the ids of those that are given away here, if the run has several learner hosts; None: all.
        """
        self._num_envs, self._num_eval_envs = num_envs, num_eval_envs
        self._served = range(num_envs) if served is None else served
        self._live: dict[int, Lease] = {}
        self._keys = itertools.count()
        # For each environment: the key of its lease, its last holder, and which process reserved it when.
        self._key = np.full(num_envs, _FREE, np.int64)
        self._was_held = np.zeros(num_envs, bool)
        self._holder = np.zeros(num_envs, np.uint64)
        self._reserved_by = np.zeros(num_envs, np.uint64)
        self._reserved_at = np.full(num_envs, -np.inf)

    def serves(self, first_env: int, num_envs: int) -> bool:
        """Whether these environments are all given away here."""
        return self._served.start <= first_env and first_env + num_envs <= self._served.stop

    def taken(self, now: float) -> int:
        """How many environments are held or reserved at `now`, in monotonic seconds."""
        reserved = now - self._reserved_at < LONGEST_RESERVATION_SECS
        return int(np.count_nonzero((self._key != _FREE) | reserved))

    def holders(self, first_env: int, num_envs: int) -> list[Lease]:
        """Live leases that overlap these environments."""
        keys = np.unique(self._key[max(first_env, 0) : max(first_env + num_envs, 0)])
        return [self._live[key] for key in keys.tolist() if key != _FREE]

    def lease_task(self, actor_id: int, num_envs: int, task: int, now: float) -> tuple[int, bool]:
        """Picks a task that no other actor holds, and keeps it for this one until it claims its environments.

        The first task is given first, because training needs an actor; then those with evaluation
        environments, and then the others, so that a few actors suffice for both.

        Args:
          actor_id: of the actor's process.
          num_envs: environments of a task.
          task: the task that it had before, which it gets again if that is free; -1: none.
          now: monotonic seconds.

        Returns:
          The task, and whether another process has held one of its environments since this one did.

        Raises:
          SlotRefusedError: an actor of this size does not fit the run (out of range), or all environments are
            taken; one sentence.
        """
        tasks = self._tasks(num_envs)
        if not tasks:
            raise SlotRefusedError(
                f"An actor of {num_envs} environments does not fit the learner's {len(self._served)}; lower "
                "--env_batch_size or raise the learner's --num_envs.",
                out_of_range=True,
            )
        own = (self._reserved_by == actor_id) & (now - self._reserved_at < LONGEST_RESERVATION_SECS)
        order = self._order(num_envs, tasks, task, own)
        picked = self._first_free(actor_id, num_envs, order, now)
        if picked is None:
            raise SlotRefusedError(
                f"All {len(self._served)} environments of the learner are taken by other actors; start fewer "
                "of them or raise the learner's --num_envs.",
                out_of_range=False,
            )
        envs = slice(picked * num_envs, (picked + 1) * num_envs)
        # An actor that asks again for the same task does not keep it longer than one that asks once.
        since = float(self._reserved_at[envs].min()) if own[envs].all() else now
        self._reserved_at[own] = -np.inf
        self._reserved_by[envs], self._reserved_at[envs] = actor_id, since
        return picked, self._had_others(actor_id, envs)

    def _tasks(self, num_envs: int) -> range:
        """The tasks of this size whose environments are all given away here."""
        if num_envs < 1:
            return range(0)
        return range(-(-self._served.start // num_envs), self._served.stop // num_envs)

    def _order(self, num_envs: int, tasks: range, task: int, own: np.ndarray) -> np.ndarray:
        """All tasks of this size in the order in which they are offered; some may appear twice."""
        first_choices = [task] if task in tasks else []
        if own.any():
            first_choices.append(min(max(int(own.argmax()) // num_envs, tasks[0]), tasks[-1]))
        others = np.array(tasks)
        evaluates = (others + 1) * num_envs > self._num_envs - self._num_eval_envs
        first = np.array([*first_choices, tasks[0]], int)
        return np.concatenate([first, others[evaluates], others[~evaluates]])

    def _first_free(self, actor_id: int, num_envs: int, order: np.ndarray, now: float) -> int | None:
        """The first task in `order` that is free, or else whose reservation is overdue; None if none is."""
        held = (self._key != _FREE) & (self._holder != actor_id)
        age = np.where(self._reserved_by == actor_id, np.inf, now - self._reserved_at)
        for longest in (LONGEST_RESERVATION_SECS, RESERVATION_SECS):
            taken = held | (age < longest)
            taken = taken[: len(taken) // num_envs * num_envs].reshape(-1, num_envs).any(axis=1)
            free = order[~taken[order]]
            if len(free):
                return int(free[0])
        return None

    def claim(self, actor_id: int, task: int, first_env: int, num_envs: int) -> Lease:
        """Gives environments to a stream; leases of the same process on them must have been released.

        Raises:
          SlotRefusedError: the environments are out of range, or a live actor holds them; one sentence.
        """
        which = f"its environments {first_env} to {first_env + num_envs - 1}"
        if first_env < 0 or num_envs < 1 or first_env + num_envs > self._num_envs:
            raise SlotRefusedError(
                f"Task {task} is out of range: {which} are not among the learner's 0 to "
                f"{self._num_envs - 1}; lower --task or raise the learner's --num_envs.",
                out_of_range=True,
            )
        if not self.serves(first_env, num_envs):
            raise SlotRefusedError(
                f"Task {task} belongs to another learner host: {which} are not among this one's "
                f"{self._served.start} to {self._served.stop - 1}; start the actor with --task=auto.",
                out_of_range=True,
            )
        envs = slice(first_env, first_env + num_envs)
        if (self._key[envs] != _FREE).any():
            raise SlotRefusedError(
                f"Task {task} is taken by a live actor; give this one another --task or end the other.",
                out_of_range=False,
            )
        lease = Lease(
            next(self._keys),
            actor_id,
            first_env,
            num_envs,
            is_restart=self._had_others(actor_id, envs),
        )
        self._live[lease.key] = lease
        self._key[envs], self._holder[envs], self._was_held[envs] = lease.key, actor_id, True
        self._reserved_at[envs] = np.where(
            self._reserved_by[envs] == actor_id, -np.inf, self._reserved_at[envs]
        )
        return lease

    def release(self, lease: Lease) -> None:
        """Frees the environments of a lease; releasing twice does nothing."""
        if self._live.pop(lease.key, None):
            self._key[lease.first_env : lease.first_env + lease.num_envs] = _FREE

    def _had_others(self, actor_id: int, envs: slice) -> bool:
        """Whether another process was the last to hold one of these environments."""
        return bool((self._was_held[envs] & (self._holder[envs] != actor_id)).any())
