"""The board as actors in other languages use it: by what protos/inference.proto says, and nothing else."""

import grpc
import numpy as np
import pytest

from seed_rl.wire.board import is_supported
from tests.processes.client import HandWrittenActor

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs Linux: no board elsewhere")

LOOK = 2**32 - 1


@pytest.fixture
def actor(board):
    found = HandWrittenActor(board.address)
    yield found
    found.close()


def numbers(actions):
    return np.frombuffer(actions, "<i4").tolist()


def test_steps_actions_and_episodes(board, actor):
    memory = actor.open_board(3, 2)
    calls = [actor.join(memory, 0, first_env=0), actor.join(memory, 1, first_env=4)]
    memory.step(0, actor.step(3, observation=np.float32([[1, 0], [2, 0], [3, 0]])))
    assert (memory.ring(), numbers(memory.actions(0))) == (0, [1, 2, 3])
    memory.step(1, actor.step(2, observation=5), episodes=[None, (17, 2.5)])
    assert (memory.ring(), numbers(memory.actions(1))) == (1, [5, 5])
    (episode,) = board.episodes
    assert (episode.env, episode.agent_steps, episode.episode_return) == (5, 17, 2.5)
    memory.step(0, actor.step(3, observation=7, done=False))
    memory.step(1, actor.step(2, observation=-1, done=False))
    rings = [memory.ring(), memory.ring()]
    assert sorted(rings) == [0, LOOK]
    assert numbers(memory.actions(0)) == [7, 7, 7]
    assert calls[0].is_active()
    assert calls[1].code() == grpc.StatusCode.INVALID_ARGUMENT
    memory.close()
    assert calls[0].code() == grpc.StatusCode.UNAVAILABLE


def test_the_end_of_training(board, actor):
    memory = actor.open_board(3)
    call = actor.join(memory, 0, first_env=0)
    memory.step(0, actor.step(3))
    assert memory.ring() == 0
    board.batcher.close()
    board.server.stop()
    assert memory.ring() == LOOK
    assert call.code() == grpc.StatusCode.OK
    memory.close()
