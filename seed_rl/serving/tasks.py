"""Assignment of environments to processes: a table of environment ids.

Its arrays are indexed by environment id, so a decision costs the same however many actors there are.
"""

from typing import NamedTuple

import numpy as np


class NoTaskError(Exception):
    """There is no task for a process; `out_of_range`: there never will be one for a process of its size."""

    def __init__(self, sentence: str, out_of_range: bool):
        super().__init__(sentence)
        self.out_of_range = out_of_range


class Task(NamedTuple):
    """The environments of a process.

    Attributes:
      number: the task's number.
      envs: the ids of its environments.
      had_others: whether another process has been ready to play some of them since this one was.
    """

    number: int
    envs: range
    had_others: bool


class Tasks:
    """The table of environments. Not thread-safe."""

    def __init__(self, num_envs: int, num_eval_envs: int = 0, served: range | None = None):
        """Starts with all environments free.

        Args:
          num_envs: environments of the run.
          num_eval_envs: how many of them, the last ones, only evaluate.
          served: the ids of those that are given away here, if the run has several learner hosts; None: all.
        """
        self._num_envs, self._num_eval_envs = num_envs, num_eval_envs
        self._served = range(num_envs) if served is None else served
        self._is_taken = np.zeros(num_envs, bool)
        # The process that was last ready to play each environment, and its number; 0: none was.
        self._last, self._holders = np.zeros(num_envs, np.uint64), np.zeros(num_envs, np.int64)
        self._num_holders = np.zeros(num_envs, np.int64)

    def take(self, process_id: int, num_envs: int, wanted: int = -1) -> Task:
        """Gives a process the environments of a task that is free.

        The requested task is given first; then the first task, because training needs an actor; then
        those with evaluation environments, and then the others, so that a few actors suffice for both.

        Args:
          process_id: of the process.
          num_envs: environments of a task.
          wanted: the requested task; -1: any.

        Raises:
          NoTaskError: a process of this size does not fit the run, or all tasks are taken.
        """
        tasks = self._tasks(num_envs)
        if not tasks:
            raise NoTaskError(
                f"An actor of {num_envs} environments does not fit the learner's {len(self._served)}; lower "
                "--env_batch_size or raise the learner's --num_envs.",
                out_of_range=True,
            )
        free = self._free(tasks, num_envs)
        if not free.size:
            raise NoTaskError(
                f"All {len(self._served)} environments of the learner are taken by other actors; start fewer "
                "of them or raise the learner's --num_envs.",
                out_of_range=False,
            )
        evaluates = (free + 1) * num_envs > self._num_envs - self._num_eval_envs
        number = int(free[np.argmax(4 * (free == wanted) + 2 * (free == tasks[0]) + evaluates)])
        envs = range(number * num_envs, (number + 1) * num_envs)
        place = slice(envs.start, envs.stop)
        had_others = bool(((self._holders[place] > 0) & (self._last[place] != process_id)).any())
        self._is_taken[place] = True
        return Task(number, envs, had_others)

    def first_free(self, num_envs: int, among: range) -> int:
        """The first free task of this size with environments among these; -1 if there is none."""
        free = self._free(_tasks_among(among, num_envs), num_envs)
        return int(free[0]) if free.size else -1

    def begin(self, task: Task, process_id: int) -> int:
        """Notes that a process is ready to play its task.

        Returns:
          The process's number at this task: a new one unless it was the last process that was ready to.
        """
        place = slice(task.envs.start, task.envs.stop)
        holders = self._holders[place]
        if (self._last[place] != process_id).any() or (holders != holders[0]).any() or not holders[0]:
            self._last[place], holders[:] = process_id, int(self._holders.max()) + 1
            self._num_holders[place] += 1
        return int(holders[0])

    def restarts(self, task: Task) -> int:
        """The number of processes that were ready to play a task's first environment, besides the first."""
        return max(0, int(self._num_holders[task.envs.start]) - 1)

    def free(self, task: Task) -> None:
        """Takes a task back."""
        self._is_taken[task.envs.start : task.envs.stop] = False

    def _tasks(self, num_envs: int) -> range:
        """The tasks of this size whose environments are all given away here."""
        if num_envs < 1:
            return range(0)
        return _tasks_among(self._served, num_envs)

    def _free(self, tasks: range, num_envs: int) -> np.ndarray:
        """The numbers of the free ones of these tasks, in order."""
        taken = self._is_taken[tasks.start * num_envs : tasks.stop * num_envs]
        return tasks.start + np.flatnonzero(~taken.reshape(-1, num_envs).any(axis=1))


def _tasks_among(envs: range, num_envs: int) -> range:
    """The tasks of this size whose environments are all among these."""
    first = -(-envs.start // num_envs)
    return range(first, max(first, envs.stop // num_envs))
