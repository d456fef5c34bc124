import time

import numpy as np
import pytest

from seed_rl.serving.slots import (
    LONGEST_RESERVATION_SECS,
    RESERVATION_SECS,
    SlotRefusedError,
    Slots,
)


def test_lease_names_its_environments():
    lease = Slots(8).claim(actor_id=1, task=2, first_env=4, num_envs=3)
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


def test_restarts_are_told_from_reconnections():
    slots = Slots(2)

    def claimed(actor_id):
        lease = slots.claim(actor_id, 0, 0, 2)
        slots.release(lease)
        return lease.is_restart

    assert not claimed(1)  # First holder.
    assert not claimed(1)  # The same process again.
    assert claimed(2)  # Another process in its place.
    assert not claimed(2)


def test_a_part_that_others_had_is_a_restart_too():
    slots = Slots(8)
    slots.release(slots.claim(1, 0, 0, 4))
    slots.release(slots.claim(2, 1, 2, 2))
    assert slots.claim(1, 0, 0, 4).is_restart


def lease_task(slots, actor_id, num_envs=2, task=-1, now=0.0):
    return slots.lease_task(actor_id, num_envs, task, now)[0]


def test_reserved_tasks_differ_and_asking_again_gives_the_same():
    slots = Slots(6)
    assert [lease_task(slots, actor_id) for actor_id in (1, 2, 3, 2, 1)] == [0, 1, 2, 1, 0]
    with pytest.raises(SlotRefusedError, match=r"All 6 .* taken by other actors; start fewer") as caught:
        lease_task(slots, 4)
    assert not caught.value.out_of_range


def test_a_reservation_ends_after_a_silence():
    slots = Slots(2)
    assert lease_task(slots, 1, now=0.0) == 0
    with pytest.raises(SlotRefusedError):
        lease_task(slots, 2, now=RESERVATION_SECS - 1)
    assert lease_task(slots, 2, now=RESERVATION_SECS) == 0


def test_a_reservation_that_is_overdue_is_given_away_last():
    """Environments may take minutes to make: their task is kept while another is free."""
    slots = Slots(6)
    assert lease_task(slots, 1, now=0.0) == 0
    assert lease_task(slots, 2, now=RESERVATION_SECS) == 1
    assert lease_task(slots, 3, now=RESERVATION_SECS) == 2
    assert lease_task(slots, 4, now=RESERVATION_SECS) == 0  # Nothing else is left.
    with pytest.raises(SlotRefusedError):
        lease_task(slots, 1, now=RESERVATION_SECS)


def test_a_reservation_is_forgotten_in_the_end():
    slots = Slots(4)
    assert lease_task(slots, 1, now=0.0) == 0
    assert lease_task(slots, 2, now=LONGEST_RESERVATION_SECS - 1) == 1
    assert lease_task(slots, 3, now=LONGEST_RESERVATION_SECS) == 0


def test_asking_again_does_not_keep_a_task_from_others_for_longer():
    slots = Slots(2)
    for now in range(int(RESERVATION_SECS)):
        assert lease_task(slots, 1, now=float(now)) == 0
    assert lease_task(slots, 2, now=RESERVATION_SECS) == 0


@pytest.mark.parametrize(
    ("num_eval_envs", "order"),
    [(0, [0, 1, 2, 3, 4]), (1, [0, 4, 1, 2, 3]), (3, [0, 3, 4, 1, 2]), (9, [0, 1, 2, 3, 4])],
)
def test_evaluation_environments_get_an_actor_before_most_others(num_eval_envs, order):
    slots = Slots(10, num_eval_envs)
    assert [lease_task(slots, actor_id) for actor_id in range(5)] == order


def test_an_actor_keeps_its_task_though_evaluation_has_none():
    slots = Slots(10, num_eval_envs=2)
    assert lease_task(slots, 1, task=2) == 2
    assert lease_task(slots, 1) == 2


def test_thousands_of_actors_are_cheap():
    """The cost of an actor must not grow with the square of their number: that took half an hour here."""
    num_actors, deadline = 4096, time.monotonic() + 30.0
    slots = Slots(num_actors)
    for actor_id in range(num_actors):
        assert time.monotonic() < deadline, f"only {actor_id} actors have their task"
        task, _ = slots.lease_task(actor_id, 1, -1, 0.0)
        slots.claim(actor_id, task, task, 1)
    assert len(slots.holders(0, num_actors)) == num_actors


def test_a_reservation_ends_when_all_of_its_environments_are_claimed_and_then_given_up():
    slots = Slots(4)
    assert lease_task(slots, 1, num_envs=4) == 0
    first = slots.claim(1, 0, 0, 2)
    slots.release(first)
    with pytest.raises(SlotRefusedError):  # Half of it was claimed: it may still be claiming.
        lease_task(slots, 2, num_envs=4)
    both = slots.claim(1, 0, 0, 2), slots.claim(1, 0, 2, 2)
    with pytest.raises(SlotRefusedError):
        lease_task(slots, 2, num_envs=4)
    for lease in both:
        slots.release(lease)
    assert lease_task(slots, 2, num_envs=4) == 0


def test_a_task_that_an_actor_had_is_its_own_while_it_is_free():
    slots = Slots(6)
    assert lease_task(slots, 1, task=2) == 2
    assert lease_task(slots, 2, task=2) == 0
    assert lease_task(slots, 3, task=77) == 1


def test_the_streams_of_an_actor_that_comes_back_do_not_stand_in_its_way():
    slots = Slots(4)
    slots.claim(1, 1, 2, 2)
    assert slots.lease_task(1, 2, 1, 0.0) == (1, False)
    assert slots.lease_task(2, 2, 1, 0.0) == (0, False)


def test_actors_of_different_sizes_do_not_overlap():
    slots = Slots(8)
    slots.claim(1, 0, 0, 3)
    assert lease_task(slots, 2, num_envs=2) == 2
    assert lease_task(slots, 3, num_envs=1) == 3
    with pytest.raises(SlotRefusedError):
        lease_task(slots, 4, num_envs=4)


@pytest.mark.parametrize("num_envs", [9, 0, -1])
def test_an_actor_that_can_never_fit_is_told_so(num_envs):
    with pytest.raises(SlotRefusedError, match=r"does not fit the learner's 8; lower") as caught:
        lease_task(Slots(8), 1, num_envs)
    assert caught.value.out_of_range


def test_an_owner_of_what_another_had_must_restart():
    slots = Slots(4)
    slots.release(slots.claim(1, 0, 0, 2))
    assert slots.lease_task(1, 2, 0, 0.0) == (0, False)
    slots = Slots(4)
    slots.release(slots.claim(1, 0, 1, 1))
    assert slots.lease_task(2, 2, 0, 0.0) == (0, True)
