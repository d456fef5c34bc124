"""Atari with the real emulator, and with a scripted one: frames, repeats, no-ops, lives and limits, exactly.

Frame n of a game of the scripted emulator shows brightness `screen(n)` everywhere and gives reward n.
"""

import csv
import itertools
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import seed_rl.runs
from seed_rl.environments.base import Info
from seed_rl.environments.suites.atari import SUITE, AtariConfig
from tests.selection import mostly_slow

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")

from ale_py import roms  # noqa: E402

from tests.environments.contract import fulfils  # noqa: E402

NOOP, FIRE = 0, 1


TestPong = fulfils(SUITE, AtariConfig(game="Pong"), agent_steps=50, episodes_end=False)
TestBreakoutWithLives = fulfils(
    SUITE, AtariConfig(game="Breakout", terminal_on_life_loss=True, full_action_space=False), agent_steps=200
)
TestShortStickySeaquest = fulfils(
    SUITE,
    AtariConfig(
        **{"game": "Seaquest", "num_action_repeats": 3, "sticky_action_probability": 0.25},
        **{"max_episode_frames": 100, "screen_size": 48},
    ),
    agent_steps=60,
)
TestHalvedBreakout = fulfils(
    SUITE, AtariConfig(game="Breakout", halve_screen=True), agent_steps=60, episodes_end=False
)


def _emulator(game):
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(game))
    ale.reset_game()
    return ale


@pytest.mark.parametrize(("num_action_repeats", "halve"), [*((n, False) for n in (1, 2, 3, 4, 7)), (1, True)])
def test_observations_are_the_maximum_of_the_last_two_frames(num_action_repeats, halve):
    """With a repeat of 1 the original's pooling returned the reset frame forever."""
    options = {"num_action_repeats": num_action_repeats, "max_random_noops": 0, "halve_screen": halve}
    env = SUITE.make(AtariConfig(game="SpaceInvaders", **options), seed=0)
    ale = _emulator("space_invaders")
    frames = [ale.getScreenGrayscale()] * 2
    observation, _ = env.reset()
    observations = []
    for action in [*np.random.default_rng(0).integers(18, size=60).tolist(), None]:
        pooled = np.maximum(*frames[-2:])
        if halve:  # The mean of blocks, without the last two rows; cv2 rounds.
            means = pooled[:208].reshape(104, 2, 80, 2).astype(np.float64).mean((1, 3))
            assert observation.shape == (104, 80) and np.abs(observation - means).max() <= 0.5
        else:
            expected = cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_LINEAR)
            np.testing.assert_array_equal(observation, expected)
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
    minimal, full = (
        SUITE.make(AtariConfig(game="Breakout", max_random_noops=0, full_action_space=every), 0)
        for every in (False, True)
    )
    minimal.reset(), full.reset()
    for index, action in ((1, FIRE), (2, int(ale_py.Action.RIGHT.value)), (3, int(ale_py.Action.LEFT.value))):
        for _ in range(5):
            np.testing.assert_array_equal(minimal.step(index)[0], full.step(action)[0])


@pytest.mark.parametrize("game", ["SpaceInvaders", "space_invaders", "spaceinvaders"])
def test_names_of_games(game):
    assert SUITE.make(AtariConfig(game=game), 0).observation_space.shape == (84, 84)


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


class ScriptedEmulator:
    """Stands in for ale_py.ALEInterface. `game_over_at` and `lives_lost_at` are frames of a game."""

    game_over_at: int | None = None
    lives_lost_at: tuple[int, ...] = ()

    def __init__(self):
        self.settings, self.actions, self.games, self.captures, self.frame = {}, [], 0, 0, 0

    @staticmethod
    def screen(frame):
        return (frame * 37) % 251

    def setFloat(self, key, value):
        self.settings[key] = value

    setInt = setFloat

    def loadROM(self, path):
        self.settings["rom"] = path

    def getLegalActionSet(self):
        return list(ale_py.Action.__members__.values())[:18]

    def getScreenDims(self):
        return 10, 8

    def reset_game(self):
        self.games += 1
        self.frame = 0

    def act(self, action):
        assert not self.game_over()
        self.frame += 1
        self.actions.append(action)
        return self.frame

    def game_over(self):
        return self.frame == self.game_over_at

    def lives(self):
        return 0 if self.game_over() else 3 - sum(self.frame >= at for at in self.lives_lost_at)

    def getScreenGrayscale(self, buffer):
        self.captures += 1
        buffer[:] = self.screen(self.frame)


@pytest.fixture
def scripted(monkeypatch):
    """(options) -> (environment, its emulator); options of the emulator start with 'ale_'."""

    def build(ale_game_over_at=None, ale_lives_lost_at=(), **options):
        emulator = ScriptedEmulator()
        emulator.game_over_at, emulator.lives_lost_at = ale_game_over_at, ale_lives_lost_at
        interface = Mock(return_value=emulator)  # and its static methods
        monkeypatch.setattr(ale_py, "ALEInterface", interface)
        return SUITE.make(AtariConfig(screen_size=5, **{"max_random_noops": 0, **options}), seed=0), emulator

    return build


def _shows(observation, *frames):
    """True if the observation is the maximum of these frames of the scripted emulator."""
    return (observation == max(map(ScriptedEmulator.screen, frames))).all()


@pytest.mark.parametrize(("num_action_repeats", "captures"), [(1, 1), (2, 2), (3, 2), (4, 2)])
def test_only_the_pooled_frames_are_converted(scripted, num_action_repeats, captures):
    env, emulator = scripted(num_action_repeats=num_action_repeats)
    observation, _ = env.reset()
    assert _shows(observation, 0)
    for last in itertools.islice(itertools.count(num_action_repeats, num_action_repeats), 20):
        before = emulator.captures
        observation, reward, *_ = env.step(7)
        assert _shows(observation, last - 1, last)
        assert reward == sum(range(last - num_action_repeats + 1, last + 1))
        assert emulator.captures == before + captures
    assert emulator.actions == [7] * 20 * num_action_repeats


def test_noops_are_single_frames_uniform_from_1(scripted):
    env, emulator = scripted(max_random_noops=3)
    counts = []
    for _ in range(300):
        emulator.actions.clear()
        observation, _ = env.reset()
        assert set(emulator.actions) == {NOOP}
        assert _shows(observation, len(emulator.actions))
        counts.append(len(emulator.actions))
    never, *often = np.bincount(counts)
    assert never == 0 and len(often) == 3 and min(often) > 70


def test_a_game_over_among_the_noops_starts_another_game(scripted):
    env, emulator = scripted(ale_game_over_at=5, max_random_noops=30, max_episode_frames=31)
    for _ in range(20):
        env.reset()
        assert emulator.frame < 5


RESET, STEP, LIFE = (), (False, False, {}), (True, False, {Info.EPISODE_CONTINUES: True})
END, CUT, BOTH = (True, False, {}), (False, True, {}), (True, True, {})
# Settings; then resets (number of the game) and steps (end, reward), each with the frames that it shows.
STORIES = {
    "a game over in mid-repeat": (
        {"ale_game_over_at": 7},  # Frame 4, fetched before, is brighter.
        [(RESET, 1, 0), (STEP, 10, 3, 4), (END, 5 + 6 + 7, 7), (RESET, 2, 0)],
    ),
    "the time limit counts environment frames": (
        {"max_episode_frames": 6},
        [part for n in (1, 2) for part in ((RESET, n, 0), (STEP, 10, 3, 4), (CUT, 5 + 6, 5, 6))],
    ),
    "a lost life stops the repeat, and the reset plays nothing, so that nothing is lost": (
        {"ale_lives_lost_at": (6, 9), "terminal_on_life_loss": True},
        [
            *((RESET, 1, 0), (STEP, 10, 3, 4), (LIFE, 5 + 6, 6), (RESET, 1, 6), (LIFE, 7 + 8 + 9, 9)),
            *((RESET, 1, 9), (STEP, 10 + 11 + 12 + 13, 12, 13), (RESET, 2, 0)),
        ],
    ),
    "a life lost at the time limit ends the game": (
        {"ale_lives_lost_at": (4,), "terminal_on_life_loss": True, "max_episode_frames": 4},
        [(RESET, 1, 0), (BOTH, 10, 3, 4), (RESET, 2, 0)],
    ),
}


@pytest.mark.parametrize(("options", "parts"), STORIES.values(), ids=STORIES)
def test_games_of_the_scripted_emulator(scripted, options, parts):
    env, emulator = scripted(**options)
    for end, number, *frames in parts:
        if end == RESET:
            observation, _ = env.reset()
            assert emulator.games == number
        else:
            observation, *rest = env.step(2)
            assert rest == [number, *end]
        assert _shows(observation, *frames) and emulator.frame == frames[-1]


def test_the_time_limit_counts_noops(scripted):
    env, emulator = scripted(max_random_noops=30, max_episode_frames=50)
    for _ in range(10):
        env.reset()
        while not env.step(0)[3]:
            pass
        assert emulator.frame == 50


def test_emulator_settings(scripted):
    _, emulator = scripted(sticky_action_probability=0.25)
    assert emulator.settings["repeat_action_probability"] == 0.25
    assert emulator.settings["rom"].endswith("pong.bin")
    env, emulator = scripted()
    assert emulator.settings["repeat_action_probability"] == 0
    seed = emulator.settings["random_seed"]
    env.reset(seed=1)
    assert emulator.settings["random_seed"] != seed
