"""An actor with shared memory, with messages, and from one to the other: nothing is lost or comes twice."""

import collections
import contextlib
import dataclasses
import logging
import threading

import grpc
import gymnasium
import numpy as np
import pytest

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.specs import suite_spec
from seed_rl.serving import refusal
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.board import MOST_STREAMS, is_supported
from seed_rl.wire.client import RefusedError
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.protocol import EnvironmentDescription
from tests.threads import Thread
from tests.waiting import wait_until

EPISODE_LENGTH = 5
DEADLINE_SECS = 60.0

needs_board = pytest.mark.skipif(not is_supported(), reason="needs Linux: no board elsewhere")
TRANSPORTS = ("grpc", pytest.param("shared_memory", marks=needs_board))


class Counting(gymnasium.Env):
    """Counts its steps over all episodes, and its episodes; their number is an episode's return."""

    observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (1,), np.int32)
    action_space = gymnasium.spaces.Discrete(10**8)

    def __init__(self):
        self.steps = self.episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return np.array([self.steps], np.int32), {}

    def step(self, action):
        assert action == self.steps + 1, "the answer to another step"
        self.steps += 1
        ends = self.steps % EPISODE_LENGTH == 0
        return np.array([self.steps], np.int32), float(self.episodes * ends), ends, False, {}


@dataclasses.dataclass(frozen=True)
class CountingConfig(EnvironmentConfig):
    """No settings."""


SUITE = Suite(CountingConfig, lambda config, seed: Counting())
SPEC = suite_spec(SUITE, CountingConfig(), 0)
DESCRIPTION = EnvironmentDescription("counting", CountingConfig().to_dict(), SPEC)


class Learner:
    """Answers each step with the number of the next one, and notes everything.

    Attributes:
      seen: the steps of each environment, in order.
      episodes: (environment, return) in order.
    """

    def __init__(self, address, num_envs, has_board):
        self.seen, self.episodes = collections.defaultdict(list), []
        self._batcher = Batcher(num_envs, 0.01, make_bell() if has_board else None)
        self._server = InferenceServer(
            address,
            DESCRIPTION,
            num_envs,
            [self._batcher],
            num_envs,
            on_episodes=lambda episodes: self.episodes.extend((e.env, e.episode_return) for e in episodes),
        )
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    @property
    def processes_on_board(self):
        return self._server._board.num_connections

    def stop(self, reason=""):
        self._batcher.close()
        self._thread.join(DEADLINE_SECS)
        self._server.stop(reason)

    def wait_for(self, num_steps):
        wait_until(
            lambda: self.seen and min(map(len, self.seen.values())) >= num_steps, "steps", DEADLINE_SECS
        )

    def _answer(self):
        while (batch := self._batcher.next_batch()) is not None:
            answers = []
            for _, request in batch:
                steps = StepCodec(SPEC).decode(bytes(request.records)).observation[:, 0]
                for env, step in zip(request.lease.env_ids.tolist(), steps.tolist(), strict=True):
                    self.seen[env].append(step)
                answers.append((request, (steps + 1).astype("<i4").tobytes()))
            self._batcher.finish([client for client, _ in batch])
            self._server.deliver(answers)


class Player(Thread):
    """An actor of four environments in two groups."""

    def __init__(self, address, transport="auto", envs=4, groups=2):
        config = ActorConfig(
            address, "0", envs, groups, connect_timeout_secs=DEADLINE_SECS, transport=transport
        )
        self._actor = Actor(config, "counting", SUITE, CountingConfig())
        super().__init__(self._play)

    def _play(self):
        try:
            self._actor.run()
        finally:
            self._actor.close()


@pytest.fixture
def start(tmp_path):
    """Starts a learner at the test's address."""
    with contextlib.ExitStack() as stack:

        def start_one(num_envs=4, has_board=True):
            learner = Learner(f"unix:{tmp_path}/s", num_envs, has_board)
            stack.callback(learner.stop)
            return learner

        yield start_one


@pytest.fixture
def address(tmp_path):
    return f"unix:{tmp_path}/s"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_step_and_every_episode_arrives_once(start, address, transport):
    learner = start()
    player = Player(address, transport)
    learner.wait_for(100)
    assert learner.processes_on_board == (transport == "shared_memory")
    learner.stop()
    assert player.finished(DEADLINE_SECS) and player.error is None
    assert sorted(learner.seen) == [0, 1, 2, 3]
    for env, steps in learner.seen.items():
        assert steps == list(range(len(steps)))
        returns = [episode_return for of, episode_return in learner.episodes if of == env]
        assert returns == list(range(1, len(returns) + 1))
        ended = (len(steps) - 1) // EPISODE_LENGTH
        assert abs(len(returns) - ended) <= 1  # The last step may have had no answer, or not have been taken.


@needs_board
def test_from_the_board_to_messages_and_back_nothing_is_lost_or_played_twice(start, address):
    learners = [start()]
    player = Player(address)
    for has_board in (False, True, True, False):
        learners[-1].wait_for(50)
        learners[-1].stop("Back in a moment.")
        learners.append(start(has_board=has_board))
        learners[-1].wait_for(1)
        assert learners[-1].processes_on_board == has_board
    learners[-1].wait_for(50)
    learners[-1].stop()
    assert player.finished(DEADLINE_SECS) and player.error is None
    for env in range(4):
        last = -1
        for learner in learners:
            steps = learner.seen[env]
            assert steps[0] in (last, last + 1)  # The pending step again, unless it never arrived.
            assert steps == list(range(steps[0], steps[0] + len(steps)))
            last = steps[-1]
        returns = [value for learner in learners for of, value in learner.episodes if of == env]
        assert returns == sorted(set(returns))
        ended = last // EPISODE_LENGTH
        assert ended - len(learners) <= len(returns) <= ended + 1


@pytest.mark.parametrize("has_board", [True, False])
def test_shared_memory_that_cannot_be_had_ends_an_actor_that_demands_it(start, address, has_board):
    """Because the learner has none, or because the actor has too many groups."""
    groups = MOST_STREAMS + 1 if has_board and is_supported() else 2
    start(num_envs=groups, has_board=has_board)
    player = Player(address, "shared_memory", groups, groups)
    assert player.finished(DEADLINE_SECS)
    assert isinstance(player.error, RefusedError)
    why = {
        True: f"an actor of more than {MOST_STREAMS} groups cannot have it",
        False: "the learner offers none",
    }
    assert str(player.error) == (
        f"This actor cannot share memory with the learner ({why[groups > 2]}); use --transport=auto."
    )


@pytest.mark.parametrize(("has_board", "groups"), [(False, 2), (True, MOST_STREAMS + 1)])
def test_without_shared_memory_steps_are_sent_as_messages(start, address, caplog, has_board, groups):
    caplog.set_level(logging.INFO)
    learner = start(num_envs=groups, has_board=has_board)
    player = Player(address, envs=groups, groups=groups)
    learner.wait_for(3)
    assert caplog.text.count("Steps are sent as messages: no shared memory, ") == 1
    learner.stop()
    assert player.finished(DEADLINE_SECS) and player.error is None


@needs_board
def test_an_actor_that_loses_its_memory_connects_again(start, address):
    learner = start()
    player = Player(address)
    learner.wait_for(20)
    (connection,) = learner._server._board._connections.values()
    learner._server._board.lose(connection)
    count = len(learner.seen[0])
    learner.wait_for(count + 20)
    assert learner.processes_on_board == 1
    learner.stop()
    assert player.finished(DEADLINE_SECS) and player.error is None


@needs_board
def test_a_streams_refusal_ends_the_actor_with_the_learners_sentence(start, address):
    learner = start()
    player = Player(address)
    learner.wait_for(20)
    lease = next(iter(learner._server._board._streams.values())).lease
    learner._server._refuse(
        lease, refusal.RefusedError(grpc.StatusCode.INVALID_ARGUMENT, "That will not do.")
    )
    assert player.finished(DEADLINE_SECS)
    assert str(player.error) == "That will not do."
