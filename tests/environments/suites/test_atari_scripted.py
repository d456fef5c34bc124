"""Atari with a scripted emulator: frames, repeats, no-ops, lives and time limits, exactly.

Frame n of a game shows brightness `screen(n)` everywhere and gives reward n.
"""

import itertools
from unittest.mock import Mock

import numpy as np
import pytest

ale_py = pytest.importorskip("ale_py")
pytest.importorskip("cv2")

from seed_rl.environments.base import Info  # noqa: E402
from seed_rl.environments.suites.atari import SUITE, AtariConfig  # noqa: E402

NOOP = 0


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
    assert np.bincount(counts).shape == (4,)
    assert np.bincount(counts)[0] == 0
    assert np.bincount(counts)[1:].min() > 70


def test_a_game_over_among_the_noops_starts_another_game(scripted):
    env, emulator = scripted(ale_game_over_at=5, max_random_noops=30, max_episode_frames=31)
    for _ in range(20):
        env.reset()
        assert emulator.frame < 5


def test_game_over_in_mid_repeat_shows_the_current_frame(scripted):
    env, emulator = scripted(ale_game_over_at=7)
    env.reset()
    env.step(2)
    observation, reward, terminated, truncated, info = env.step(3)
    assert _shows(observation, 7)  # frame 4, fetched before, is brighter
    assert (reward, terminated, truncated, info) == (5 + 6 + 7, True, False, {})
    assert emulator.actions == [2] * 4 + [3] * 3
    env.reset()
    assert (emulator.games, emulator.frame) == (2, 0)


def test_the_time_limit_counts_environment_frames(scripted):
    env, emulator = scripted(max_episode_frames=6)
    for _ in range(2):
        env.reset()
        assert env.step(2)[2:4] == (False, False)
        observation, reward, terminated, truncated, _ = env.step(3)
        assert _shows(observation, 5, 6)
        assert (reward, terminated, truncated) == (5 + 6, False, True)
    assert emulator.actions == ([2] * 4 + [3] * 2) * 2
    assert emulator.games == 2


def test_the_time_limit_counts_noops(scripted):
    env, emulator = scripted(max_random_noops=30, max_episode_frames=50)
    for _ in range(10):
        env.reset()
        while not env.step(0)[3]:
            pass
        assert emulator.frame == 50


def test_a_lost_life_stops_the_repeat_and_the_reset_goes_on(scripted):
    env, emulator = scripted(ale_lives_lost_at=(6, 9), terminal_on_life_loss=True)
    env.reset()
    env.step(2)
    last, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated, info) == (5 + 6, True, False, {Info.EPISODE_CONTINUES: True})
    assert _shows(last, 6)
    first, _ = env.reset()
    assert (emulator.games, emulator.frame) == (1, 6)  # nothing was played, so nothing was lost
    np.testing.assert_array_equal(first, last)
    assert env.step(2)[1:3] == (7 + 8 + 9, True)
    env.reset()
    assert env.step(2)[1:3] == (10 + 11 + 12 + 13, False)
    env.reset()  # in mid-game: a new one
    assert (emulator.games, emulator.frame) == (2, 0)


def test_a_life_lost_at_the_time_limit_ends_the_game(scripted):
    env, emulator = scripted(ale_lives_lost_at=(4,), terminal_on_life_loss=True, max_episode_frames=4)
    env.reset()
    assert env.step(0)[2:] == (True, True, {})
    env.reset()
    assert emulator.games == 2


def test_emulator_settings(scripted):
    _, emulator = scripted(sticky_action_probability=0.25)
    assert emulator.settings["repeat_action_probability"] == 0.25
    assert emulator.settings["rom"].endswith("pong.bin")
    env, emulator = scripted()
    assert emulator.settings["repeat_action_probability"] == 0
    seed = emulator.settings["random_seed"]
    env.reset(seed=1)
    assert emulator.settings["random_seed"] != seed
