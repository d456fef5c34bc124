import numpy as np
import pytest

from seed_rl.inference.slots import SlotRefusedError, Slots


def test_lease_names_its_environments():
    lease = Slots(8).claim(run_id=1, task=2, first_env=4, num_envs=3)
    assert lease.env_ids.dtype == np.int32
    assert lease.env_ids.tolist() == [4, 5, 6]


@pytest.mark.parametrize(("first_env", "num_envs"), [(-1, 1), (0, 0), (0, -1), (0, 9), (6, 3), (8, 1)])
def test_out_of_range_is_refused(first_env, num_envs):
    slots = Slots(8)
    with pytest.raises(SlotRefusedError, match=r"not among the learner's 0 to 7; lower --task") as caught:
        slots.claim(1, 0, first_env, num_envs)
    assert caught.value.out_of_range
    assert slots.holders(0, 8) == []


@pytest.mark.parametrize(("first_env", "num_envs"), [(2, 2), (0, 3), (3, 3), (0, 8)])
def test_overlap_with_a_live_lease_is_refused(first_env, num_envs):
    slots = Slots(8)
    slots.claim(1, 0, 2, 2)
    with pytest.raises(SlotRefusedError, match="Task 5 is taken by a live actor") as caught:
        slots.claim(2, 5, first_env, num_envs)
    assert not caught.value.out_of_range


def test_neighbours_do_not_overlap():
    slots = Slots(8)
    for first_env in (2, 0, 4, 6):
        slots.claim(1, 0, first_env, 2)
    assert len(slots.holders(0, 8)) == 4
    assert [lease.first_env for lease in slots.holders(3, 2)] == [2, 4]


def test_release_frees_and_may_be_repeated():
    slots = Slots(2)
    lease = slots.claim(1, 0, 0, 2)
    slots.release(lease)
    other = slots.claim(2, 0, 0, 2)
    slots.release(lease)
    assert slots.holders(0, 2) == [other]


def test_new_runs_and_restarts_are_told_from_reconnections():
    slots = Slots(2)

    def claimed(run_id):
        lease = slots.claim(run_id, 0, 0, 2)
        slots.release(lease)
        return lease.is_new_run, lease.is_restart

    assert claimed(1) == (True, False)  # First holder.
    assert claimed(1) == (False, False)  # The same process again.
    assert claimed(2) == (True, True)  # Another process in its place.
    assert claimed(2) == (False, False)
