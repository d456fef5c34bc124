"""Atari with the real emulator; `test_atari_scripted` has what happens when."""

import csv
from pathlib import Path

import numpy as np
import pytest

import seed_rl.runs
from seed_rl.environments.suites.atari import SUITE, AtariConfig
from tests.selection import mostly_slow

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")

from ale_py import roms  # noqa: E402

from tests.environments.contract import fulfils  # noqa: E402

FIRE = 1


TestPong = fulfils(SUITE, AtariConfig(game="Pong"), agent_steps=50, episodes_end=False)
TestBreakoutWithLives = fulfils(
    SUITE, AtariConfig(game="Breakout", terminal_on_life_loss=True, full_action_space=False), agent_steps=200
)
TestShortStickySeaquest = fulfils(
    SUITE,
    AtariConfig(
        game="Seaquest",
        num_action_repeats=3,
        sticky_action_probability=0.25,
        max_episode_frames=100,
        screen_size=48,
    ),
    agent_steps=60,
)
TestHalvedBreakout = fulfils(
    SUITE, AtariConfig(game="Breakout", halve_screen=True), agent_steps=60, episodes_end=False
)


def test_a_halved_screen_is_the_mean_of_blocks_without_the_last_two_rows():
    config = AtariConfig(game="Breakout", halve_screen=True, max_random_noops=0, num_action_repeats=1)
    env, screen = SUITE.make(config, seed=0), np.zeros((210, 160), np.uint8)
    env.reset()
    frames = []
    for _ in range(20):
        observation, *_ = env.step(FIRE)
        env.unwrapped._ale.getScreenGrayscale(screen)
        frames.append(screen.copy())
    pooled = np.maximum(*frames[-2:])[:208].reshape(104, 2, 80, 2).astype(np.float64)
    assert observation.shape == (104, 80)
    assert np.abs(observation - pooled.mean((1, 3))).max() <= 0.5  # cv2 rounds.


def _emulator(game):
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(game))
    ale.reset_game()
    return ale


@pytest.mark.parametrize("num_action_repeats", [1, 2, 3, 4, 7])
def test_observations_are_the_maximum_of_the_last_two_frames(num_action_repeats):
    """With a repeat of 1 the original's pooling returned the reset frame forever."""
    config = AtariConfig(game="SpaceInvaders", num_action_repeats=num_action_repeats, max_random_noops=0)
    env = SUITE.make(config, seed=0)
    ale = _emulator("space_invaders")
    frames = [ale.getScreenGrayscale()] * 2
    observation, _ = env.reset()
    observations = []
    for action in [*np.random.default_rng(0).integers(18, size=60).tolist(), None]:
        pooled = np.maximum(*frames[-2:])
        np.testing.assert_array_equal(
            observation, cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_LINEAR)
        )
        observations.append(observation)
        if action is not None:
            rewards = []
            for _ in range(num_action_repeats):
                rewards.append(ale.act(action))
                frames.append(ale.getScreenGrayscale())
            observation, reward, terminated, truncated, _ = env.step(action)
            assert (reward, terminated, truncated) == (sum(rewards), False, False)
    assert any((observation != observations[0]).any() for observation in observations)


def test_minimal_actions_are_the_games_own():
    """Action 2 of Breakout's four moves right; of all 18 it would move up."""
    options = {"game": "Breakout", "max_random_noops": 0}
    minimal, full = (
        SUITE.make(AtariConfig(full_action_space=False, **options), 0),
        SUITE.make(AtariConfig(**options), 0),
    )
    minimal.reset(), full.reset()
    for index, action in ((1, FIRE), (2, int(ale_py.Action.RIGHT.value)), (3, int(ale_py.Action.LEFT.value))):
        for _ in range(5):
            np.testing.assert_array_equal(minimal.step(index)[0], full.step(action)[0])


@pytest.mark.parametrize("game", ["SpaceInvaders", "space_invaders", "spaceinvaders"])
def test_names_of_games(game):
    assert SUITE.make(AtariConfig(game=game), 0).observation_space.shape == (84, 84)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"game": "SpaceInvader"}, r"^--game=SpaceInvader is not .*the nearest are: SpaceInvaders.*\.$"),
        ({"game": "PongNoFrameskip-v4"}, r"^--game=PongNoFrameskip-v4 .*; write --game=Pong\.$"),
        # It would end the process.
        ({"game": "Combat"}, r"^--game=Combat is not supported: .*one player\.$"),
        ({"max_episode_frames": 30}, "--max_episode_frames=30 must be greater than --max_random_noops=30"),
        ({"halve_screen": True, "screen_size": 48}, r"^--halve_screen sets .*leave out --screen_size=48"),
    ],
)
def test_what_cannot_be_played_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        SUITE.make(AtariConfig.of(**settings), 0)


TABLE = Path(seed_rl.runs.__file__).parent / "data" / "atari57_scores.csv"
GAMES = [row["game"] for row in csv.DictReader(TABLE.open(encoding="utf-8"))]


@pytest.mark.parametrize("game", mostly_slow(GAMES, ["Breakout", "Pong", "Skiing"]))
def test_a_hundred_agent_steps(game):
    env = SUITE.make(AtariConfig(game=game), 0)
    # The paper has 18 actions for every game; the emulator takes only half of them for Skiing.
    assert env.action_space.n == (9 if game == "Skiing" else 18)
    observation, _ = env.reset(seed=1)
    random = np.random.default_rng(0)
    seen = {observation.tobytes()}
    for _ in range(100):
        observation, reward, terminated, truncated, _ = env.step(int(random.integers(env.action_space.n)))
        assert env.observation_space.contains(observation)
        assert np.isfinite(reward)
        seen.add(observation.tobytes())
        if terminated or truncated:
            env.reset()
    assert len(seen) > 10  # Something moves.
    env.close()
