import numpy as np
import pytest

from seed_rl.environments.suites.minatar import SUITE, MinAtarConfig
from tests.environments.contract import fulfils

pytest.importorskip("minatar")


TestBreakout = fulfils(SUITE, MinAtarConfig())
TestSeaquest = fulfils(SUITE, MinAtarConfig(game="seaquest", full_action_space=True))
# Its episodes last 2,500 frames; here a time limit cuts them.
TestFreeway = fulfils(SUITE, MinAtarConfig(game="freeway", max_episode_frames=60))


@pytest.mark.parametrize(
    ("game", "channels", "actions"),
    [("asterix", 4, 5), ("breakout", 4, 3), ("freeway", 7, 3), ("seaquest", 10, 6), ("space_invaders", 6, 4)],
)
def test_every_game_has_its_channels_and_minimal_actions(game, channels, actions):
    env = SUITE.make(MinAtarConfig(game=game), 0)
    assert env.observation_space.shape == (10, 10, channels)
    assert env.observation_space.dtype == np.bool_
    assert env.action_space.n == actions
    assert SUITE.make(MinAtarConfig(game=game, full_action_space=True), 0).action_space.n == 6
    assert env.render().shape == (240, 240, 3)


def test_the_time_limit_truncates_and_counts_environment_frames():
    env = SUITE.make(MinAtarConfig(game="freeway", max_episode_frames=7), 0)
    ends = [env.step(0)[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]
    env.reset()
    assert env.step(0)[3] is False


def test_without_sticky_actions_the_paddle_obeys():
    env = SUITE.make(MinAtarConfig(sticky_action_probability=0.0), 3)
    before, _ = env.reset()
    after, *_ = env.step(1)  # Left.
    assert np.argmax(after[9, :, 0]) == np.argmax(before[9, :, 0]) - 1
