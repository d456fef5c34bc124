"""The stores of unrolls beside lists in plain Python."""

import collections
import gc

import hypothesis
import hypothesis.strategies as st
import numpy as np
import optree
import pytest
import tensorflow as tf
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seed_rl.devices.replicas import Replicas
from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.memory import BufferPool
from seed_rl.experience.unroll_store import UnrollStore
from tests.experience.slow_store import SlowStore, append, in_batch, steps_of
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS

PLENTY = 10**6

CUTS = st.builds(
    UnrollConfig,
    length=st.integers(1, 5),
    burn_in=st.integers(0, 4),
    period=st.one_of(st.none(), st.integers(1, 8)),
    stagger=st.booleans(),
)


def mark(array):
    """Overwrites memory with bytes that no step has."""
    array.reshape(-1).view(np.uint8)[:] = 0xEE
    return array


class MarkedPool(BufferPool):
    """Pool whose new arrays have marked contents: unrolls must not depend on them."""

    def array(self, shape, dtype):
        return mark(super().array(shape, dtype))


def marked(store):
    """The same store, whose memory is marked until it is written."""
    allocate = store._allocate
    store._pool, store._allocate = MarkedPool(), lambda *args: [mark(x) for x in allocate(*args)]
    return store


class Stores(RuleBasedStateMachine):
    """A queue and a list of unrolls get the same steps; environments come in any order and are reset."""

    @initialize(cut=CUTS, num_envs=st.integers(1, 4), batch_size=st.integers(1, 4), passes=st.integers(1, 3))
    def begin(self, cut, num_envs, batch_size, passes):
        self.inserted, self.expected = [], []
        self.single = marked(UnrollStore(num_envs, cut, self.inserted.extend))
        self.fifo = Fifo(Setup(num_envs, cut, batch_size), PLENTY, passes)
        marked(self.fifo.store)
        self.model = SlowStore(num_envs, cut)
        self.next = 10_000 * np.arange(num_envs)
        self.version, self.batch_size = 0, batch_size
        self.rest = []  # Unrolls that are in no batch yet.
        self.queue = collections.deque()  # (batch, passes left).
        self.passes, self.held = passes, []

    @rule(data=st.data(), count=st.integers(1, 12))
    def step(self, data, count):
        num_envs = len(self.next)
        env_ids = np.array(data.draw(st.permutations(range(num_envs))), np.int32)
        env_ids = env_ids[: data.draw(st.integers(1, num_envs))]
        for _ in range(count):
            self.version += 1
            steps = self.next[env_ids]
            answers = [
                self.model.append(env_id, step, self.version)
                for env_id, step in zip(env_ids.tolist(), steps.tolist(), strict=True)
            ]
            begin = [place for place, (begins, _) in enumerate(answers) if begins]
            for store in (self.single, self.fifo.store):
                assert store.starting(env_ids).tolist() == begin
            unrolls = [unroll for _, found in answers for unroll in found]
            for store in (self.single, self.fifo.store):
                completed = append(store, env_ids, steps, self.version)
                assert len(completed) == len(unrolls)
                store.hand_over(completed)
            self.expected += unrolls
            self.rest += [unroll[3:] for unroll in unrolls]
            self.next[env_ids] += 1
        while len(self.rest) >= self.batch_size:
            self.queue.append((self.rest[: self.batch_size], self.passes))
            del self.rest[: self.batch_size]

    @rule(data=st.data())
    def reset(self, data):
        env_id = data.draw(st.integers(0, len(self.next) - 1))
        self.version += 1
        for store in (self.single, self.fifo.store):
            store.reset(np.array([env_id]), self.version)
        self.model.reset(env_id, self.version)
        self.next[env_id] += 1000

    @precondition(lambda self: self.queue)
    @rule(is_held=st.booleans())
    def sample(self, is_held):
        expected, left = self.queue.popleft()
        if left > 1:
            self.queue.append((expected, left - 1))
        batch = self.fifo.sample()
        assert in_batch(batch) == expected
        assert batch.sample.weight.tolist() == [1.0] * self.batch_size
        if is_held:  # A view of one array is enough to keep its memory.
            view = batch.sample.env.observation["image"][1:]
            self.held.append((view, view.copy()))

    @rule()
    def release(self):
        self.held.clear()

    @invariant()
    def same(self):
        if hasattr(self, "queue"):
            assert self.fifo.batch_ready() == bool(self.queue)
            assert len(self.inserted) == len(self.expected)
            for view, copy in self.held:
                np.testing.assert_array_equal(view, copy)

    def teardown(self):
        if hasattr(self, "queue"):
            assert [
                (u.env_id, u.stream, u.first_step, steps_of(u), u.policy_version.tolist())
                for u in self.inserted
            ] == self.expected


Stores.TestCase.settings = hypothesis.settings(
    max_examples=150, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
test_stores_do_what_lists_do = Stores.TestCase


def make(num_envs, batch_size, length=2):
    fifo = Fifo(Setup(num_envs, UnrollConfig(length, stagger=False), batch_size), PLENTY)
    return fifo, fifo.store


def test_memory_is_used_again():
    fifo, store = make(2, 2)
    addresses = set()
    for step in range(200):
        append(store, range(2), [step, step])
        while fifo.batch_ready():
            addresses.add(fifo.sample().sample.env.reward.ctypes.data)
    assert len(addresses) < 4


def test_what_training_reads_is_never_written_into():
    """Whatever TensorFlow shares with NumPy: the tensors of an update keep their values."""
    (fifo, store), tensors, copies = make(64, 64), [], []
    for step in range(13):
        append(store, range(64), step + 100 * np.arange(64))
        while fifo.batch_ready():
            sample = fifo.sample().sample
            copies.append(optree.tree_map(np.copy, sample))
            tensors.append(Replicas().distribute(sample))
            del sample
            gc.collect()
    assert len(tensors) == 6
    for copy, tensor in zip(copies, tensors, strict=True):
        assert tf.is_tensor(tensor.env.reward)
        for a, b in zip(optree.tree_leaves(copy), optree.tree_leaves(tensor), strict=True):
            np.testing.assert_array_equal(a, b.numpy())


def test_threads_fill_batches_together():
    """Each has environments of its own; no unroll is lost, doubled or mixed with another."""
    fifo, store = make(6, 4)

    def play(env_ids):
        for step in range(400):
            append(store, env_ids, 1000 * np.array(env_ids) + step)

    threads = [Thread(play, env_ids) for env_ids in ([0, 1], [2, 3], [4, 5])]
    for thread in threads:
        assert thread.finished(), DEADLINE_SECS
        assert thread.error is None
    found = []
    while fifo.batch_ready():
        found += [steps for steps, _ in in_batch(fifo.sample())]
    assert len(found) == 4 * (6 * 199 // 4)
    expected = [[1000 * i + 2 * n + t for t in range(3)] for i in range(6) for n in range(199)]
    assert all(found.count(steps) == 1 for steps in found)
    assert all(steps in expected for steps in found)


def test_a_store_with_states_refuses_settings_without():
    with pytest.raises(ValueError, match="UnrollStore needs keeps_state=True"):
        UnrollStore(1, UnrollConfig(3, keeps_state=False), lambda unrolls: None)


@pytest.mark.parametrize(
    ("name", "number"), [("length", 0), ("length", -3), ("burn_in", -1), ("period", 0), ("period", -2)]
)
def test_numbers_that_are_too_low_are_refused(name, number):
    words = (
        rf"{name}={number}\b.* is not valid; length and period must be at least 1, and burn_in at least 0\.$"
    )
    with pytest.raises(ValueError, match=words):
        UnrollConfig(**{"length": 5, name: number})
