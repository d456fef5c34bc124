"""A person who plays in place of a policy: keys, turns, and what a page may send."""

import contextlib

import numpy as np
import pytest

from seed_rl.evaluation.played import Played
from seed_rl.serving.connection import Refusal
from seed_rl.types import ACTION_MASK, AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from tests.threads import Thread

DEADLINE_SECS = 30.0
SPEC = EnvironmentSpec(
    {ACTION_MASK: ArraySpec((3,), "bool"), "x": ArraySpec((1,), "float32")},
    ArraySpec((), "int64", (0.0,), (2.0,)),
)
POLICYS = 1
ME, OTHER = "my page", "another page"


@pytest.fixture
def page():
    """Makes a page with a key map, or without; ended by `stop`."""
    with contextlib.ExitStack() as stack:

        def make(keys=(), speed=1000.0):
            found = Played(speed, dict(keys), about={}, spec=SPEC, logdir="none", settings={})
            stack.callback(found.stop)
            return found

        yield make


def step(page, mask=(True, True, True), truncated=False, env_ids=(0, 1)):
    """The actions of two environments in which the policy takes action 1."""
    records = np.zeros(2, StepCodec(SPEC).record)
    records[f"observation:{ACTION_MASK}"], records["truncated"] = mask, truncated
    return page.see(np.array(env_ids), records, AgentOutput(np.full(2, POLICYS), {})).action.tolist()


def test_a_person_takes_the_place_of_the_policy_in_environment_0(page):
    page = page({"a": 2})
    assert step(page) == [POLICYS, POLICYS]
    page._obey({"plays": True}, ME)
    assert step(page) == [0, POLICYS], "no key"
    page._obey({"action": 2}, ME)
    assert step(page) == step(page) == [2, POLICYS], "the key is held"
    assert step(page, env_ids=(1, 2)) == step(page, truncated=True) == [POLICYS, POLICYS]
    page._obey({"action": None}, ME)
    assert step(page) == [0, POLICYS], "the key is released"
    page._obey({"action": 2}, ME)
    page._obey({"action": None}, ME)
    assert step(page) == [2, POLICYS], "the key was pressed between two steps"
    page._obey({"plays": False}, ME)
    assert step(page) == [POLICYS, POLICYS]


def test_without_a_key_map_all_wait_for_the_persons_action_if_it_is_allowed(page):
    page, found = page(), []
    page._obey({"plays": True}, ME)
    page._obey({"action": 2}, ME)
    thread = Thread(lambda: found.append(step(page, mask=(True, True, False))))
    assert not thread.finished(0.2), "action 2 is not allowed"
    page._obey({"action": None}, ME)
    page._obey({"action": 0}, ME)
    assert thread.finished(DEADLINE_SECS) and found == [[0, POLICYS]]


@pytest.mark.parametrize(
    "leave", [lambda page: page._obey({"plays": False}, ME), lambda page: page._left(ME), Played.stop]
)
def test_nobody_waits_for_a_person_who_has_left(page, leave):
    page, found = page(), []
    page._obey({"plays": True}, ME)
    thread = Thread(lambda: found.append(step(page)))
    assert not thread.finished(0.1)
    leave(page)
    assert thread.finished(DEADLINE_SECS) and len(found) == 1


def test_the_last_to_play_does_while_others_come_and_go(page):
    page = page({"a": 2})
    page._obey({"plays": True}, OTHER)
    page._obey({"plays": True}, ME)
    page._obey({"action": 2}, ME)
    for order in ({"action": 1}, {"plays": False}):
        page._obey(order, OTHER)
    page._left(OTHER)
    assert step(page) == [2, POLICYS]


def test_stop_ends_the_pause_between_two_steps(page):
    page = page({"a": 2}, speed=1e-4)
    step(page)
    thread = Thread(step, page)
    assert not thread.finished(0.1)
    page.stop()
    assert thread.finished(DEADLINE_SECS)


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"plays": 1},
        {"plays": None},
        {"action": 3},
        {"action": -1},
        {"action": True},
        {"action": 1.0},
        {"action": "0"},
        {"action": 1, "plays": True},
        {"other": 1},
    ],
)
def test_other_orders_are_refused(page, order):
    page = page()
    with pytest.raises(Refusal, match=r"\."):
        page._obey(order, ME)
