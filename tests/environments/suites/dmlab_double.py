"""Stands in for the module deepmind_lab, whose engine has no package: its Python API and a small game.

Everything that the engine's C module refuses is refused in the same way, and so is everything whose result
it leaves undefined. The game: a player walks and turns on an empty plane for a second or two. The frame shows
who and where the player is.
"""

import contextlib
import csv
import sys
import tempfile
import types
import zlib
from pathlib import Path

import numpy as np
import pytest

from seed_rl.runs import scores

PREFIX = "contributed/dmlab30/"
ACTION_SPEC = (
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512),
    ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1),
    ("MOVE_BACK_FORWARD", -1, 1),
    ("FIRE", 0, 1),
    ("JUMP", 0, 1),
    ("CROUCH", 0, 1),
)
KNOWN_SETTINGS = {"width", "height", "fps", "mixerSeed", "logLevel", "allowHoldOutLevels", "datasetPath"}
NUM_MAPS = 4


def published_levels() -> list[str]:
    """The test levels of DMLab-30, as the published scores name them."""
    path = Path(scores.__file__).with_name("data") / "dmlab30_scores.csv"
    with open(path, newline="", encoding="utf-8") as file:
        return [row["test_level"] for row in csv.DictReader(file)]


def levels() -> set[str]:
    """The 32 levels of DMLab-30: those for tests, and for training where these are others."""
    test = set(published_levels())
    train = {name.removesuffix("_test") + "_train" for name in test if name.endswith("_test")}
    return {PREFIX + name for name in test | train}


@contextlib.contextmanager
def installed():
    """Puts a module with `Lab` in the place of deepmind_lab; its `labs` are all instances, oldest first."""
    module = types.ModuleType("deepmind_lab")
    module.labs = []

    class RecordedLab(Lab):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            module.labs.append(self)

    module.Lab = RecordedLab
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "deepmind_lab", module)
        yield module


def _demand(condition, error, text):
    if not condition:
        raise error(text)


class Lab:
    """For tests: `level`, `config` and `renderer` as given; `compiled` levels, `resets` and `steps`."""

    def __init__(self, level, observations, config={}, renderer="software", level_cache=None):  # noqa: B006
        texts = (level, renderer, *config, *config.values())
        _demand(all(isinstance(text, str) for text in texts), TypeError, "bad argument type")
        is_renderer = renderer in ("software", "hardware")
        _demand(is_renderer, RuntimeError, f"Failed to set renderer, actual '{renderer}'!")
        _demand(level in levels(), RuntimeError, f"Invalid levelName flag '{level}'")
        unknown = set(config) - KNOWN_SETTINGS  # The engine passes these to the level.
        _demand(not unknown, RuntimeError, f"A setting that no level here has: {unknown}")
        may_hold_out = config.get("allowHoldOutLevels") == "true"
        _demand(may_hold_out or not level.endswith("_test"), RuntimeError, f"Level {level} is held out")
        self._width, self._height = int(config.get("width", "320")), int(config.get("height", "240"))
        _demand(not (self._width % 4 or self._height % 4), RuntimeError, "width and height: multiples of 4")
        self._mixer_seed = int(config.get("mixerSeed", "0"))
        for name in observations:  # The engine has more, which no suite requests.
            _demand(name in ("RGB_INTERLEAVED", "INSTR"), ValueError, f"Unknown observation '{name}'.")
        self.level, self.config, self.renderer = level, dict(config), renderer
        self.compiled, self.resets, self.steps = [], [], []
        self._names, self._cache = list(observations), level_cache
        self._status, self._next_episode, self._num_steps = "uninitialized", 0, 0

    def reset(self, episode=-1, seed=None):
        # A call on a closed engine has no defined result; here it fails.
        _demand(self._status != "closed", RuntimeError, "The environment is closed")
        _demand(isinstance(episode, int), TypeError, "an integer is required")
        _demand(seed is None or isinstance(seed, int), ValueError, f"'seed' must be int or None: {seed!r}")
        _demand(seed is None or -(2**31) <= seed < 2**31, OverflowError, "the engine's seeds have 32 bits")
        if episode >= 0:
            self._next_episode = episode
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self.resets.append((self._next_episode, seed))
        self._map = self._load_map(abs(seed) % NUM_MAPS)
        entropy = [seed % 2**32, self._next_episode, self._mixer_seed, zlib.crc32(self.level.encode())]
        rng = np.random.default_rng(entropy)
        self._player = int(rng.integers(256))
        self._frames_left = int(rng.integers(60, 150))
        self._x = self._y = self._yaw = 0
        self._next_episode += 1
        self._num_steps = 0
        self._status = "running"
        return True

    def step(self, action, num_steps=1):
        _demand(isinstance(action, np.ndarray), TypeError, f"must be numpy.ndarray, not {type(action)}")
        _demand(isinstance(num_steps, int), TypeError, "an integer is required")
        _demand(self.is_running(), RuntimeError, "Environment in wrong status to advance.")
        _demand(action.shape == (len(ACTION_SPEC),), ValueError, f"action must have shape {len(ACTION_SPEC)}")
        _demand(action.dtype == np.intc, ValueError, "action must have dtype np.intc")
        for value, (name, low, high) in zip(action.tolist(), ACTION_SPEC, strict=True):
            _demand(low <= value <= high, ValueError, f"{name} must be {low} to {high}")
        _demand(num_steps >= 1, ValueError, "num_steps must be at least 1")
        self.steps.append((tuple(action.tolist()), num_steps))
        self._num_steps += num_steps
        look, _, strafe, move, fire, _, _ = action.tolist()
        played = min(num_steps, self._frames_left)
        self._frames_left -= played
        self._x, self._y = self._x + strafe * played, self._y + move * played
        self._yaw += look * played
        if self._frames_left == 0:
            self._status = "terminated"
        return float(played * (0.25 * max(move, 0) - fire))

    def is_running(self):
        return self._status == "running"

    def observations(self):
        _demand(self.is_running(), RuntimeError, "Environment in wrong status for call to observations()")
        frame = np.full((self._height, self._width, 3), self._map, np.uint8)
        state = np.array([self._player, self._x, self._y, self._yaw, self._num_steps])
        frame[: len(state), :, :] = (state % 256).astype(np.uint8)[:, np.newaxis, np.newaxis]
        found = {"RGB_INTERLEAVED": frame, "INSTR": self._instruction()}
        return {name: found[name] for name in self._names}

    def close(self):
        was_open, self._status = self._status != "closed", "closed"
        return was_open

    def _instruction(self):
        if not self.level.startswith(PREFIX + "language_"):
            return ""
        return f"Pick the {('red', 'blue')[self._num_steps // 40 % 2]} object in room {self._map}."

    def _load_map(self, number):
        """The map from the cache, or else compiled and written to it; the cache's errors are raised."""
        key = f"{self.level}/map:{number}?{self._mixer_seed}"
        map_file = zlib.compress(key.encode()) * 1000
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "level.pk3"
            if self._cache is None or not self._cache.fetch(key, str(path)):
                self.compiled.append(key)
                path.write_bytes(map_file)
                if self._cache is not None:
                    self._cache.write(key, str(path))
            _demand(path.read_bytes() == map_file, RuntimeError, "The file is not the level")
        return number
