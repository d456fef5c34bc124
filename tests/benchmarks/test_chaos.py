"""The campaign of faults: it finds nothing wrong, and its checks find every kind of wrong unroll."""

import numpy as np
import pytest

from benchmarks import chaos_parts
from benchmarks.chaos_parts import CLOCK, EPISODE, NAME, STEP, Counting, answer, before, wrong
from tests.benchmarks.running import result

LENGTH = 200


def play():
    """An unroll of an environment's first steps, as `wrong` takes it."""
    env = Counting()
    step = {"observation": env.reset()[0], "reward": 0.0, "done": True, "truncated": False, "prev_action": 0}
    steps = []
    for _ in range(LENGTH):
        step["action"] = int(answer(step["observation"].astype(np.int64)))
        steps.append(step)
        prev_action = step["action"]
        if step["truncated"]:
            found = (env.reset()[0], 0.0, True, False)
        else:
            observation, reward, terminated, truncated, _ = env.step(prev_action)
            found = (env.reset()[0] if terminated else observation, reward, terminated, truncated)
        names = ("observation", "reward", "done", "truncated")
        step = dict(zip(names, found, strict=True), prev_action=prev_action)
    batch = {name: np.array([[step[name]] for step in steps]) for name in steps[0]}
    return batch | {"state": np.full((1, 5), -1), "weight": np.ones(1)}


def part(batch, start, stop):
    """Some of the steps, with the state before them."""
    cut = {name: x[start:stop].copy() for name, x in batch.items() if name not in ("state", "weight")}
    return cut | {"state": before(cut["observation"][0].astype(np.int64)), "weight": np.ones(1)}


@pytest.fixture(scope="module")
def whole():
    chaos_parts._STEP_SECS, before = 0.0, chaos_parts._STEP_SECS
    yield play()
    chaos_parts._STEP_SECS = before


def kinds(batch, known):
    return {name for name, mask in wrong(batch, known).items() if mask[0]}


def test_right_unrolls_that_overlap_by_a_step_are_right(whole):
    assert whole["done"].sum() > 10 and whole["truncated"].sum() > 2
    assert kinds(whole, {}) == set()
    known = {}
    assert [kinds(part(whole, i, i + 6), known) for i in range(5, LENGTH - 6, 5)] == [set()] * 38
    begin = int(np.flatnonzero(whole["done"][:, 0])[2])  # As after a restart of the learner.
    fresh = part(whole, begin, begin + 6) | {"state": np.full((1, 5), -1)}
    fresh["prev_action"][0] = 0
    assert kinds(fresh, {}) == set()


PLANTED = {
    "several environments": lambda x: x["observation"].__setitem__((3, 0, NAME), 7),
    "not consecutive": lambda x: x["observation"].__setitem__((3, 0, STEP), 99),  # No episode is so long.
    "time goes back": lambda x: x["observation"].__setitem__((3, 0, CLOCK), 0),
    "state": lambda x: x["state"].__setitem__((0, EPISODE), 77),
    "weight": lambda x: x["weight"].__setitem__(0, 0.5),
    "done": lambda x: np.logical_not(x["done"], out=x["done"]),
    "truncated": lambda x: np.logical_not(x["truncated"], out=x["truncated"]),
} | {name: lambda x, name=name: x[name].__setitem__(4, -1) for name in ("reward", "prev_action", "action")}


@pytest.mark.parametrize("kind", PLANTED)
def test_every_kind_of_wrong_unroll_is_found(whole, kind):
    unroll = part(whole, 5, 11)
    PLANTED[kind](unroll)
    assert kind in kinds(unroll, {})


def test_a_step_that_is_trained_on_twice_is_found(whole):
    known = {}
    assert kinds(part(whole, 5, 11), known) == set()
    assert kinds(part(whole, 9, 15), known) == {"trained on twice"}


def test_an_action_that_answers_another_step_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv(chaos_parts.DIRECTORY, str(tmp_path))
    Counting().step(-1)
    assert "action -1 is not the answer" in (tmp_path / "violations.txt").read_text()


@pytest.mark.slow
def test_two_minutes_of_faults():
    pytest.importorskip("tensorflow", reason="no TensorFlow")
    found = result("chaos", "--minutes=2", timeout=900)
    assert found["wrong_unrolls"] == found["violations"] == 0
    assert (
        found["faults_on_actors"] >= 15 and found["faults_on_learners"] >= 6 and found["unrolls_checked"] > 0
    )
