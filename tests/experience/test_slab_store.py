"""The slabs that inference fills and training reads, beside lists in plain Python."""

import concurrent.futures
import gc
import sys

import numpy as np
import optree
import pytest
import tensorflow as tf

from seed_rl.devices.replicas import Replicas
from seed_rl.experience import slab_store
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import Unroll
from tests.experience.slow_store import CUTS, SlowStore, append, steps_of
from tests.selection import mostly_slow
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until

PLENTY = 10**6


def make(num_envs, batch_size, config, capacity=PLENTY):
    fifo = Fifo(batch_size, capacity)
    return fifo, fifo.store(num_envs, config)


def in_batch(batch):
    """(steps, policy version) of every unroll in a batch."""
    steps = batch.sample.prev_action, batch.sample.env, batch.sample.agent
    found = []
    for column, version in enumerate(batch.policy_version.tolist()):
        of_column = optree.tree_map(lambda x, column=column: x[:, column], steps)
        state = optree.tree_map(lambda x, column=column: x[column], batch.sample.initial_state)
        found.append((steps_of(Unroll(*of_column, state, version)), version))
    return found


def batches(fifo):
    """The batches that are ready."""
    found = []
    while fifo.batch_ready():
        found.append(in_batch(fifo.sample()))
    return found


class Environments:
    """Environments in front of a store and its slow counterpart; their steps tell them apart."""

    def __init__(self, num_envs, store, config):
        self._store, self._slow = store, SlowStore(num_envs, config)
        self._next = 100_000 * np.arange(num_envs)
        self.completed = []  # What the slow store says.

    def step(self, env_ids, version=0):
        steps = self._next[env_ids]
        slow = zip(env_ids.tolist(), steps.tolist(), strict=True)
        expected = [self._slow.append(env_id, float(step), version) for env_id, step in slow]
        completed = append(self._store, env_ids, steps, version)
        unrolls = [unroll[3:] for _, unrolls in expected for unroll in unrolls]
        assert len(completed) == len(unrolls)
        self.completed += unrolls
        self._next[env_ids] += 1

    def reset(self, env_id, stream=1):
        self._store.reset(np.array([env_id]), stream)
        self._slow.reset(env_id, stream)
        self._next[env_id] += 1000


@pytest.mark.parametrize("batch_size", mostly_slow([1, 2, 3, 7], [2]))
@pytest.mark.parametrize("config", CUTS, ids=str)
def test_batches_are_the_first_unrolls_to_be_complete(config, batch_size):
    """Environments step at different speeds, in any order, freeze, and are reset at any moment."""
    num_envs, rng = 5, np.random.default_rng(batch_size)
    fifo, store = make(num_envs, batch_size, config)
    world, found = Environments(num_envs, store, config), []
    for version in range(250):
        if rng.random() < 0.03:
            world.reset(int(rng.integers(num_envs)), version)
        speeds = np.linspace(1.0, 0.4, num_envs) * (np.arange(num_envs) != version // 50)
        chosen = rng.permutation(np.flatnonzero(rng.random(num_envs) < speeds))
        world.step(chosen, version)
        before = len(found)
        found += [unroll for batch in batches(fifo) for unroll in batch]
        # As many as can be, and nothing that is not complete.
        assert len(found) == len(world.completed) // batch_size * batch_size
        assert all(unroll in world.completed for unroll in found[before:])
    assert len(found) > 20
    left = sorted(world.completed)
    for unroll in found:
        left.remove(unroll)  # Each once.
    assert len(left) < batch_size


def test_environments_in_step_fill_the_columns_in_order_and_nothing_is_moved(monkeypatch):
    monkeypatch.setattr(slab_store.Slabs, "exchange", None)
    config, found = UnrollConfig(4, burn_in=2), []
    fifo, store = make(6, 4, config)
    world = Environments(6, store, config)
    for version in range(40):
        world.step(np.arange(6), version)
        found += [unroll for batch in batches(fifo) for unroll in batch]
    assert len(found) > 40
    assert found == world.completed[: len(found)]


@pytest.mark.parametrize("num_alive", [1, 3])
def test_frozen_environments_hold_nobody_up(num_alive):
    num_envs, config = 4, UnrollConfig(3)
    fifo, store = make(num_envs, 4, config)
    world, found = Environments(num_envs, store, config), 0
    for _ in range(5):
        world.step(np.arange(num_envs))
    for _ in range(60):
        world.step(np.arange(num_alive))
        found += len(batches(fifo))
        assert found == len(world.completed) // 4
    for _ in range(10):
        world.step(np.arange(num_envs))  # And they go on where they were.
    found += len(batches(fifo))
    assert found == len(world.completed) // 4


def test_a_column_whose_stream_has_ended_is_used_again():
    config = UnrollConfig(3, stagger=False)
    _, store = make(4, 2, config)
    world = Environments(4, store, config)
    for stream in range(50):
        world.step(np.arange(4))
        world.step(np.arange(4))
        for env_id in range(4):
            world.reset(env_id, stream)
    assert len(store._open) == 2


def test_a_full_queue_holds_inference_up_and_loses_nothing():
    config, found = UnrollConfig(2, stagger=False), []
    fifo, store = make(3, 2, config, capacity=3)

    def play():
        for step in range(21):
            store.hand_over(append(store, range(3), [step, 1000 + step, 2000 + step]))

    thread = Thread(play)
    for _ in range(14):
        wait_until(lambda: thread.is_waiting() or not thread.is_alive(), "a full queue")
        assert fifo.figures()["queue_depth"] <= 3
        found += [steps[0] for steps, _ in in_batch(fifo.sample())]
    wait_until(lambda: thread.finished() or fifo.batch_ready(), "the end")
    found += [steps[0] for batch in batches(fifo) for steps, _ in batch]
    assert sorted(found) == sorted(1000 * env + first for env in range(3) for first in range(0, 20, 2))


@pytest.mark.parametrize("batch_size", [2, 5])
def test_threads_write_side_by_side(batch_size):
    """Each has its own environments, as the cores of several inference devices have; one of all freezes."""
    num_threads, envs, steps, config = 4, 3, 300, UnrollConfig(4, burn_in=1)
    num_envs = num_threads * envs
    fifo, store = make(num_envs, batch_size, config, capacity=2 * batch_size)
    worlds = [Environments(num_envs, store, config) for _ in range(num_threads)]
    found = []

    def play(index):
        rng = np.random.default_rng(index)
        mine = envs * index + np.arange(envs)
        for version in range(steps):
            if rng.random() < 0.02:
                worlds[index].reset(int(rng.choice(mine)), version)
            alive = mine[1:] if index == 0 and version > 30 else mine
            worlds[index].step(rng.permutation(alive[rng.random(len(alive)) < 0.8]), version)
            fifo.wait_for_room()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
            playing = [pool.submit(play, index) for index in range(num_threads)]
            while not all(thread.done() for thread in playing):
                found += [unroll for batch in batches(fifo) for unroll in batch]
            for thread in playing:
                thread.result(DEADLINE_SECS)
    finally:
        sys.setswitchinterval(before)
    found += [unroll for batch in batches(fifo) for unroll in batch]
    expected = [unroll for world in worlds for unroll in world.completed]
    assert len(found) == len(expected) // batch_size * batch_size > 500
    for unroll in found:
        expected.remove(unroll)


def test_columns_move_only_while_nobody_writes(monkeypatch):
    """A step makes a batch possible while another one is being written into a column that has to move."""
    config = UnrollConfig(2, stagger=False)
    fifo, store = make(3, 2, config)
    for step in (0, 1, 2):  # The second column of the first slab is that of environment 0, too.
        append(store, [0], [step])
    for step in (0, 1):
        append(store, [1, 2], [1000 + step, 2000 + step])
    write, begun = store._slabs.write_steps, concurrent.futures.Future()

    def slow(columns, steps, leaves):
        if not begun.done():
            begun.set_result(None)
            wait_until(lambda: store._is_moving, "an exchange that is wanted")
        write(columns, steps, leaves)

    monkeypatch.setattr(store._slabs, "write_steps", slow)
    late = Thread(lambda: append(store, [0], [3]))
    begun.result(DEADLINE_SECS)
    assert append(store, [1], [1002]) != []
    assert late.finished()
    assert late.error is None
    append(store, [0, 2], [4, 2002])
    found = [[steps for steps, _ in batch] for batch in batches(fifo)]
    assert found == [[[0, 1, 2], [1000, 1001, 1002]], [[2, 3, 4], [2000, 2001, 2002]]]


def test_memory_is_used_again_but_not_before_training_is_done_with_it():
    config = UnrollConfig(2, stagger=False)
    fifo, store = make(2, 2, config)
    world, held, addresses = Environments(2, store, config), None, set()
    for index in range(200):
        while not fifo.batch_ready():
            world.step(np.arange(2))
        batch = fifo.sample()
        addresses.add(batch.sample.env.reward.ctypes.data)
        if index == 3:  # A view of one array is enough to keep it.
            held = batch.sample.env.observation["image"][1:]
            copy = held.copy()
        del batch
    np.testing.assert_array_equal(held, copy)
    assert len(addresses) < 8
    assert len(store._slabs) == store._slab_count


def test_what_training_reads_is_never_written_into():
    """Whatever TensorFlow shares with NumPy: the tensors of an update keep their values."""
    config = UnrollConfig(2, stagger=False)
    fifo, store = make(64, 64, config)
    world, tensors, copies = Environments(64, store, config), [], []
    for _ in range(6):
        while not fifo.batch_ready():
            world.step(np.arange(64))
        sample = fifo.sample().sample
        copies.append(optree.tree_map(np.copy, sample))
        tensors.append(Replicas().distribute(sample))
        del sample
        gc.collect()
    for copy, tensor in zip(copies, tensors, strict=True):
        assert tf.is_tensor(tensor.env.reward)
        for a, b in zip(optree.tree_leaves(copy), optree.tree_leaves(tensor), strict=True):
            np.testing.assert_array_equal(a, b.numpy())


def test_more_slabs_are_found_when_training_holds_many():
    config = UnrollConfig(2, stagger=False)
    fifo, store = make(3, 2, config)
    world, held = Environments(3, store, config), []
    for _ in range(40):
        world.step(np.arange(3))
        while fifo.batch_ready():
            held.append(fifo.sample())
    assert len(store._slabs) > 2 * store._slab_count
    assert sorted(u for batch in held for u in in_batch(batch)) == sorted(world.completed[: 2 * len(held)])
