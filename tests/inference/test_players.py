"""Players: whatever happens in whatever order, unrolls are of one player's steps, none an opponent's."""

import contextlib
import time

import numpy as np
import optree
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import MisfitError, Setup, UnrollConfig
from seed_rl.experience.fifo import Rollouts
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.streams import WAITS
from seed_rl.serving.request import Request, ServedGroup
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

SPEC = EnvironmentSpec(
    {"slot": ArraySpec((), "int32"), "step": ArraySpec((), "int32")},
    ArraySpec((), "int32", (0,), (10**9,)),
    num_players=2,
)
LENGTH = 4


class Witness(Policy):
    """Action: who answers which slot's step. State: the steps of the episode that it has seen."""

    def __init__(self, number):
        super().__init__()
        self.number, self.calls = number, []

    def initial_state(self, batch_size):
        return tf.zeros([batch_size], tf.int64)

    def act(self, prev_action, env, state, env_ids):
        seen = env.observation
        state = tf.where(env.done, tf.zeros_like(state), state) + 1
        info = {"seen": state, "prev_action": prev_action}
        return AgentOutput(answer(self.number, seen["slot"], seen["step"]), info), state


def answer(number, slot, step):
    return number * 10**8 + slot * 10**6 + step


class Drawn:
    """Opponents from a list of draws, again and again; keeps results."""

    def __init__(self, *draws):
        self.draws, self.count, self.results = draws, 0, []
        self.policies = {n: Witness(n) for n in draws if n}

    def draw(self):
        self.count += 1
        return self.draws[(self.count - 1) % len(self.draws)]

    def ended(self, number, score):
        self.results.append((number, score))

    def policy(self, number):
        return number, self.policies[number], lambda: contextlib.nullcontext(0)


class Table:
    """Games of two players around a core, whose turns, ends and returns a test decides on.

    A slot's steps have numbers: the thousands count its episodes.
    """

    def __init__(self, num_games, opponents=None, store=None):
        self.slots = np.arange(2 * num_games, dtype=np.int32)
        self.unrolls = []
        store = store or UnrollStore(2 * num_games, UnrollConfig(LENGTH, stagger=False), self.unrolls.extend)
        weights = lambda: contextlib.nullcontext(7)  # noqa: E731
        self.core = InferenceCore(
            Witness(0), SPEC, 2 * num_games, 0, store, weights, opponents=opponents, seed=3
        )
        self.group = ServedGroup(0, 1, 0, 2 * num_games, is_restart=False)
        self.episode, self.step = np.zeros(2 * num_games, np.int64), np.zeros(2 * num_games, np.int64)
        self.played, self.is_first = np.zeros(2 * num_games, np.int64), True
        self.answers = [[] for _ in self.slots]  # (number of the step, action) of each slot.
        self.last_action = np.zeros(2 * num_games, np.int64)

    def records(self, to_move):
        """The next records: `to_move` is a bool per slot. A slot's first one in an episode is done."""
        step = 1000 * self.episode + self.step
        done = ~to_move | (self.step == 0)
        env = EnvOutput(
            np.zeros(len(self.slots), np.float32), done, ~to_move, {"slot": self.slots, "step": step}
        )
        return StepCodec(SPEC).encode(env)

    def play(self, to_move, ended=()):
        """One agent step of those to move; `ended` has (game, returns of its two players) that just ended."""
        episodes = [
            pb.Episode(env=2 * game + seat, episode_return=value, agent_steps=1)
            for game, returns in ended
            for seat, value in enumerate(returns)
        ]
        for game, _ in ended:
            self.episode[2 * game : 2 * game + 2] += 1
            self.step[2 * game : 2 * game + 2] = 0
        applied = 0 if self.is_first else None
        self.is_first = False
        request = Request(self.group, self.records(to_move), time.monotonic(), applied, episodes)
        (found,), completed = self.core.process([request])
        while found is WAITS:
            self.on_wait()
            (found,), more = self.core.process([request])
            completed += more
        self.core.hand_over(completed)
        actions = ActionCodec(SPEC.action).decode(found)
        numbers = 1000 * self.episode + self.step
        for slot in np.flatnonzero(to_move):
            assert actions[slot] % 10**8 == slot * 10**6 + numbers[slot]
            self.answers[slot].append((numbers[slot], actions[slot] // 10**8))
        assert not actions[~to_move].any()
        self.step[to_move] += 1

    def on_wait(self):
        raise AssertionError("Nothing waits here.")


def check(slot, step, env, prev_action, agent):
    """Steps `[S]` of a player are its own and in order, and those that count are the learning policy's."""
    leaves = env.truncated
    assert (slot == slot[0]).all() and not (leaves & ~env.done).any()
    np.testing.assert_array_equal(agent.action[~leaves], answer(0, slot, step)[~leaves])
    np.testing.assert_array_equal(prev_action[1:][~leaves[:-1]], agent.action[:-1][~leaves[:-1]])
    np.testing.assert_array_equal(agent.info["seen"], step % 1000 + 1)
    np.testing.assert_array_equal(np.diff(step)[~leaves[:-1] & ~env.done[1:]], 1)
    assert (step[1:][env.done[1:]] % 1000 == 0).all() and env.done[1:][leaves[:-1]].all()


turns = st.lists(
    st.tuples(st.integers(1, 15), st.integers(0, 7)), min_size=30, max_size=80
)  # Who is to move, and which game ends.


@settings(max_examples=15, deadline=None)
@given(turns, st.sampled_from([None, (0,), (1, 0, 2), (1,)]))
def test_whoever_is_to_move_unrolls_are_of_one_players_own_steps_with_the_learning_policy(script, draws):
    opponents = Drawn(*draws) if draws else None
    table = Table(2, opponents)
    for mask, end in script:
        ended = [(end, (1.0, -1.0))] if end < 2 and table.step[2 * end : 2 * end + 2].any() else ()
        table.play(np.array([bool(mask >> slot & 1) for slot in range(4)]), ended)
    for unroll in table.unrolls:
        seen = unroll.env.observation
        check(seen["slot"], seen["step"], unroll.env, unroll.prev_action, unroll.agent)
    # Each learning step but the last few is in an unroll, and no other step but those that end episodes.
    for slot in range(4):
        learned = {number for number, who in table.answers[slot] if who == 0}
        stored = {
            int(number)
            for unroll in table.unrolls
            for number, leaves in zip(unroll.env.observation["step"], unroll.env.truncated, strict=True)
            if unroll.env.observation["slot"][0] == slot and not leaves
        }
        assert stored <= learned
        assert len(learned - stored) <= LENGTH
    assert table.core.agent_steps == sum(who == 0 for slot in table.answers for _, who in slot)


def test_an_episodes_seats_are_drawn_when_it_begins_and_its_result_is_the_learning_players():
    opponents = Drawn(1)
    table = Table(1, opponents)
    alternately = [np.array([True, False]), np.array([False, True])]
    for _ in range(20):
        for _ in range(3):
            for to_move in alternately:
                table.play(to_move)
        table.play(np.array([True, False]), ended=[(0, (2.0, -2.0))])
        table.play(np.array([False, True]))
    who = [{}, {}]
    for slot in range(2):
        for number, by in table.answers[slot]:
            assert who[slot].setdefault(number // 1000, by) == by  # The same through the whole episode.
    seats = [0 if who[0][episode] == 0 else 1 for episode in range(20)]
    assert all(who[0][episode] + who[1][episode] == 1 for episode in range(20))
    assert 0 < sum(seats) < 20
    assert opponents.results == [(1, 1.0 if seat == 0 else 0.0) for seat in seats]


@pytest.mark.parametrize(("returns", "score"), [((0.0, 0.0), 0.5), ((3.0, 3.0), 0.5)])
def test_equal_returns_are_a_draw(returns, score):
    opponents = Drawn(0)
    table = Table(1, opponents)
    table.play(np.array([True, True]))
    table.play(np.array([True, True]), ended=[(0, returns)])
    assert opponents.results == [(0, score)]


class Waiting(Table):
    """Trains on a rollout as soon as all players wait."""

    def __init__(self, num_games, opponents=None):
        setup = Setup(2 * num_games, UnrollConfig(LENGTH), batch_size=2 * num_games)
        self.rollouts, self.batches = Rollouts(setup), []
        super().__init__(num_games, opponents, self.rollouts)

    def on_wait(self):
        assert self.rollouts.batch_ready()
        self.batches.append(self.rollouts.sample())
        self.rollouts.trained()


@settings(max_examples=15, deadline=None)
@given(turns, st.sampled_from([None, (1, 0, 2)]))
def test_rollouts_wait_for_the_player_that_is_behind_and_leave_out_what_others_play_meanwhile(script, draws):
    table = Waiting(2, Drawn(*draws) if draws else None)
    for mask, end in script:
        ended = [(end, (1.0, -1.0))] if end < 2 and table.step[2 * end : 2 * end + 2].any() else ()
        table.play(np.array([bool(mask >> slot & 1) for slot in range(4)]), ended)
    for batch in table.batches:
        sample = batch.sample
        slot, step = sample.env.observation["slot"], sample.env.observation["step"]
        assert sorted(slot[0]) == [0, 1, 2, 3] and (slot == slot[0]).all()
        assert not sample.agent.action[-1].any() and (batch.policy_version[-1] == -1).all()
        for i in range(4):
            env, agent, prev = optree.tree_map(
                lambda x, i=i: x[:-1, i], (sample.env, sample.agent, sample.prev_action)
            )
            check(slot[:-1, i], step[:-1, i], env, prev, agent)
            is_next = sample.env.done[-1, i] or sample.env.truncated[-2, i] or step[-1, i] - step[-2, i] == 1
            assert is_next


def test_a_player_that_never_moves_ends_a_run_with_rollouts_in_a_sentence():
    table = Waiting(1)
    with pytest.raises(MisfitError, match=r"hardly ever is to move.*--agent=vtrace"):
        for _ in range(10_000):
            table.play(np.array([True, False]))


def test_a_request_in_which_all_are_idle_is_answered_and_stores_nothing():
    table = Table(1)
    table.play(np.array([False, False]))
    assert table.core.agent_steps == 0


def test_a_player_that_goes_on_with_an_episode_after_a_restart_is_stored_from_its_next_step_on():
    table = Table(1)
    table.step[:] = 5  # The learner has restarted; slot 1 is idle, and does not move for a while.
    for to_move in [(True, False)] * 8 + [(False, True)] * 8:
        table.play(np.array(to_move))
    first = {
        int(u.env.observation["slot"][0]): int(u.env.observation["step"][0]) for u in table.unrolls[::-1]
    }
    assert first == {0: 6, 1: 6}
