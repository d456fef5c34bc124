"""Assignment of environments to processes."""

import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule

from seed_rl.serving.tasks import NoTaskError, Tasks

NUM_ENVS, NUM_EVAL_ENVS = 12, 3
SERVED = range(2, 12)


@pytest.mark.parametrize("num_envs", [9, 0, -1])
def test_a_process_that_can_never_fit_is_told_so(num_envs):
    with pytest.raises(NoTaskError, match=r"does not fit the learner's 8; lower --env_batch") as caught:
        Tasks(8).take(1, num_envs)
    assert caught.value.out_of_range


def test_thousands_of_processes_are_cheap():
    """The cost of one must not grow with the square of their number: that took half an hour once."""
    deadline, tasks = time.monotonic() + 30.0, Tasks(4096)
    for process_id in range(4096):
        assert time.monotonic() < deadline, f"only {process_id} processes have their task"
        assert tasks.take(process_id, 1, wanted=process_id).number == process_id


class TasksMachine(RuleBasedStateMachine):
    """The model: by environment, who has it, and who was last ready to play it, with which number."""

    held = Bundle("held")

    def __init__(self):
        super().__init__()
        self.tasks = Tasks(NUM_ENVS, NUM_EVAL_ENVS, SERVED)
        self.owner, self.last, self.holders = {}, {}, {}

    @rule(target=held, process_id=st.integers(1, 4), size=st.integers(1, 6), wanted=st.integers(-1, 12))
    def take(self, process_id, size, wanted):
        possible = [n for n in range(NUM_ENVS) if SERVED.start <= n * size and (n + 1) * size <= SERVED.stop]
        free = [n for n in possible if not self.owner.keys() & set(range(n * size, (n + 1) * size))]
        try:
            task = self.tasks.take(process_id, size, wanted)
        except NoTaskError as error:
            assert (free, error.out_of_range) == ([], not possible)
            return multiple()
        evaluate = [n for n in free if (n + 1) * size > NUM_ENVS - NUM_EVAL_ENVS]
        assert task.number == next(n for n in (wanted, possible[0], *evaluate, *free) if n in free)
        assert task.envs == range(task.number * size, (task.number + 1) * size)
        assert task.had_others == any(self.last.get(env, process_id) != process_id for env in task.envs)
        for env in task.envs:
            self.owner[env] = process_id
        return task

    @rule(task=held)
    def begin(self, task):
        """The number is the same if this process was the last that was ready for all of it; else new."""
        process_id = self.owner[task.envs.start]
        holder, before = self.tasks.begin(task, process_id), {self.holders.get(env) for env in task.envs}
        is_same = {self.last.get(env) for env in task.envs} == {process_id} and len(before) == 1
        assert holder in before if is_same else holder > max(self.holders.values(), default=0)
        for env in task.envs:
            self.last[env], self.holders[env] = process_id, holder

    @rule(task=consumes(held))
    def free(self, task):
        self.tasks.free(task)
        for env in task.envs:
            del self.owner[env]


TestTasks = TasksMachine.TestCase
TestTasks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
