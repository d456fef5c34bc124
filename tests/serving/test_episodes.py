"""What a stream may report of episodes."""

import pytest

from seed_rl.serving.episodes import episode_problem
from seed_rl.serving.slots import Lease
from seed_rl.wire.generated import inference_pb2 as pb

LEASE = Lease(0, 1, 8, 4, is_restart=False)  # Environments 8 to 11.


def episode(env=8, episode_return=1.0, agent_steps=10):
    return pb.Episode(env=env, episode_return=episode_return, agent_steps=agent_steps)


def test_episodes_of_the_stream_may_count():
    assert episode_problem([], LEASE) is None
    assert episode_problem([episode(8), episode(11, -1e30, 0)], LEASE) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env": 7}, "environment 7 was reported on a stream of environments 8 to 11"),
        ({"env": 12}, "environment 12 was reported"),
        ({"env": -1}, "environment -1 was reported"),
        ({"episode_return": float("nan")}, "The return of an episode of environment 8 is NaN or infinite"),
        ({"episode_return": float("-inf")}, "NaN or infinite"),
        ({"agent_steps": -1}, "environment 8 cannot have -1 agent steps; report 0 to 1000000000."),
        ({"agent_steps": 2**31 - 1}, "cannot have 2147483647 agent steps"),
    ],
)
def test_others_are_refused(changes, words):
    assert words in episode_problem([episode(9), episode(**changes)], LEASE)


def test_an_environment_ends_one_episode_in_a_step():
    assert "more than one episode" in episode_problem([episode(8), episode(9), episode(8)], LEASE)
