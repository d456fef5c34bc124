import numpy as np
import pytest

from seed_rl.environments.base import Info
from seed_rl.environments.batched import make_batched
from seed_rl.environments.suites.classic import SUITE, GymConfig, make
from tests.environments.contract import SettingsContract

STAGGERED = GymConfig(game="Pendulum-v1", max_episode_frames=50, staggered_start=True)


class TestStaggered(SettingsContract):
    suite, config = SUITE, STAGGERED


def ends(batch, agent_steps):
    """By environment, the agent steps at which an episode was cut, and whether it was void."""
    found = [[] for _ in range(batch.num_envs)]
    for step in range(agent_steps):
        output, infos = batch.step(np.zeros((batch.num_envs, 1), np.float32))
        for env, info in enumerate(infos):
            if output.truncated[env]:
                found[env].append((step, info.get(Info.EPISODE_IS_VOID, False)))
    return found


def test_first_episodes_end_apart_and_are_void_and_all_others_are_whole():
    batch = make_batched(SUITE, STAGGERED, list(range(20)))
    batch.reset()
    found = ends(batch, 160)
    firsts = [episodes[0][0] for episodes in found]
    assert len(set(firsts)) > 10 and max(firsts) < 49
    for (first, is_void), *others in found:
        assert is_void
        assert [(step, False) for step in range(first + 51, 160, 51)] == others


def test_a_seed_makes_an_episode_the_first_again():
    batch = make_batched(SUITE, STAGGERED, [3, 4])
    batch.reset()
    first = ends(batch, 120)
    batch.reset([3, 4])
    assert ends(batch, 120) == first


def test_evaluation_plays_whole_episodes():
    batch = make_batched(SUITE, STAGGERED.for_evaluation(), [0])
    batch.reset()
    assert ends(batch, 51) == [[(49, False)]]


def test_without_a_time_limit_it_is_refused():
    with pytest.raises(ValueError, match=r"^--staggered_start needs a time limit .* has none; set --max_"):
        make(GymConfig(game="CliffWalking-v1", staggered_start=True), 0)
