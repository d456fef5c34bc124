"""With rollouts, every step of an unroll is acted on by the weights that will train on it."""

import numpy as np
import pytest

from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Rollouts
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep
from seed_rl.wire.codec import ActionCodec
from tests.inference import test_core
from tests.inference.test_core import SPEC, action
from tests.waiting import DEADLINE_SECS

T, SIZE = 3, 2


class World(test_core.World):
    """Groups that number their steps, a batcher, a core, and training that only counts."""

    def __init__(self, num_groups, num_eval_envs=0, num_inference_envs=64):
        self.num_training = num_groups * SIZE - num_eval_envs
        self.rollouts = Rollouts(Setup(self.num_training, UnrollConfig(T), self.num_training))
        super().__init__([SIZE] * num_groups, T, 0, num_eval_envs, self.rollouts.store)
        self.batcher = Batcher(num_inference_envs, 0.01)
        self.clients = [self.batcher.connect() for _ in range(num_groups)]
        self.refused = []

    def join(self, group):
        """A new actor for a group: its steps are numbered from the next thousand."""
        self.batcher.disconnect(self.clients[group])
        self.rejoin(group, is_new_actor=True)
        self.clients[group] = self.batcher.connect()

    def ask(self, group, **changes):
        """The group's next step arrives."""
        self.batcher.submit(self.clients[group], self.request(group, **changes), SIZE)

    def deliver(self, pairs):
        for request, answer in pairs:
            ids = request.group.env_ids
            if isinstance(answer, BadStep):
                self.refused.append(ids[0] // SIZE)
                continue
            np.testing.assert_array_equal(
                ActionCodec(SPEC.action).decode(answer), action(ids, self.next_step[ids])
            )
            self.next_step[ids] += 1

    def answer(self):
        """One batch."""
        batch = self.batcher.next_batch(DEADLINE_SECS)
        self.core.hand_over(self.core.answer(batch, self.batcher, self.deliver))

    def play(self, *groups, batches=1):
        """So many batches of the next steps of these groups."""
        for _ in range(batches):
            for group in groups:
                self.ask(group)
            self.answer()

    def train(self):
        """Takes a rollout, and publishes the next version."""
        batch = self.rollouts.sample()
        assert self.core.agent_steps == self.num_training * T * (self.version + 1)
        self.version += 1
        self.rollouts.trained()
        return batch


def check(batch, version, first_steps):
    """Steps, answers and states of a rollout; `first_steps` by environment."""
    sample = batch.sample
    env, steps = sample.env.observation["env"], sample.env.observation["step"]
    order = np.argsort(env[0])
    np.testing.assert_array_equal(batch.policy_version[:-1], version)
    np.testing.assert_array_equal(env, np.broadcast_to(env[0], env.shape))
    expected = np.asarray(first_steps) + np.arange(T + 1)[:, np.newaxis]
    np.testing.assert_array_equal(steps[:, order], expected)
    np.testing.assert_array_equal(sample.agent.action[:-1], action(env, steps)[:-1])
    np.testing.assert_array_equal(sample.prev_action[:-1], sample.agent.info["prev_action"][:-1])
    # The last step has not been acted on.
    np.testing.assert_array_equal(batch.policy_version[-1], -1)
    assert not sample.agent.action[-1].any() and not sample.agent.info["acted"][-1].any()
    before = np.where(steps % 1000 == 0, 0, action(env, steps - 1))
    np.testing.assert_array_equal(sample.prev_action, before)
    # The state counts the steps acted on: once each, although the last one of an unroll is stored twice.
    np.testing.assert_array_equal(sample.agent.info["acted"][:-1] % 1000, steps[:-1] % 1000 + 1)
    np.testing.assert_array_equal(sample.initial_state["saw"], np.where(steps[0] % 1000, steps[0] - 1, -1))


@pytest.mark.parametrize("max_batch", [64, SIZE])
def test_rollouts_follow_one_another_and_each_is_played_by_one_version(max_batch):
    world = World(3, num_inference_envs=max_batch)
    waiting = set()
    for version in range(4):
        while not world.rollouts.batch_ready():
            for group in {0, 1, 2} - waiting:
                world.ask(group)
                waiting.add(group)
            while world.batcher._pending:
                before = world.next_step.copy()
                world.answer()
                waiting -= set(np.flatnonzero((world.next_step != before)[::SIZE]).tolist())
        assert waiting == {0, 1, 2}  # All are held back.
        sizes = world.core.metrics._values["batch_sizes"]
        assert sizes and 0 not in sizes  # A batch that nobody gets an answer to is not counted.
        check(world.train(), version, [version * T] * 6)


def test_a_fast_group_waits_for_a_slow_one():
    world = World(2)
    for step in range(T + 1):
        world.play(0)
        assert world.next_step[0] == min(step + 1, T)
    assert not world.batcher._pending
    world.play(1, batches=T + 1)
    check(world.train(), 0, [0] * 4)
    assert len(world.batcher._pending) == 2  # Both wait in the batcher,
    world.answer()
    assert world.next_step.tolist() == [T + 1] * 4  # and get their actions from the new weights.


@pytest.mark.parametrize("reward", [np.nan, 1e16])
def test_a_last_step_that_must_not_be_trained_on_is_refused_at_once(reward):
    world = World(1)
    world.play(0, batches=T)
    world.ask(0, reward=reward)
    world.answer()
    assert world.refused == [0] and not world.rollouts.batch_ready()
    world.join(0)
    world.play(0, batches=T + 1)
    batch = world.rollouts.sample()
    np.testing.assert_array_equal(batch.sample.env.observation["step"][:, 0], 1000 + np.arange(T + 1))


def test_environments_that_only_evaluate_are_in_no_rollout():
    world = World(2, num_eval_envs=3)  # One of the first group, and the second.
    world.play(0, 1, batches=T + 1)
    assert world.next_step.tolist() == [T, T, T + 1, T + 1]
    check(world.train(), 0, [0])
    world.answer()
    assert world.next_step.tolist() == [T + 1] * 4
