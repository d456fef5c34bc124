"""Every number of every message from a peer has a range."""

import math

import pytest

from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.ranges import RANGES, first_problem, problem

# Of the environment itself: values that are not finite are left out (`seed_rl.metrics.episodes`).
EXEMPT = {("Episode", "figures")}


def numbers(descriptor):
    """(message, field) of all numbers in a message and in the messages that it consists of."""
    for field in descriptor.fields:
        if (descriptor.name, field.name) in EXEMPT:
            continue
        if field.message_type is not None:
            yield from numbers(field.message_type)
        elif field.type not in (field.TYPE_BOOL, field.TYPE_BYTES, field.TYPE_STRING):
            yield descriptor.name, field.name


def test_the_table_has_all_numbers_that_an_actor_may_send():
    of_actors = {(kind, field) for kind in RANGES for field in RANGES[kind]}
    assert set(numbers(pb.FromActor.DESCRIPTOR)) <= of_actors


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in RANGES for field in RANGES[kind]])
def test_both_ends_of_a_range_belong_to_it_and_nothing_beyond(kind, field):
    lowest, highest = RANGES[kind][field]
    assert not problem(kind, field, lowest) and not problem(kind, field, highest)
    for value in (lowest - 1, highest + 1, math.inf, -math.inf, math.nan):
        if lowest <= value <= highest:  # The float after rounding.
            continue
        assert problem(kind, field, value) == f"{kind}.{field} must be {lowest} to {highest}, not {value}."


def test_a_receiver_may_allow_less():
    assert problem("Step", "group", 2, 1) == "Step.group must be 0 to 1, not 2."
    assert not first_problem(pb.Episode(env=1, agent_steps=1), env=1)
    assert first_problem(pb.Episode(env=2, agent_steps=-1), env=1) == "Episode.env must be 0 to 1, not 2."
