"""DeepMind Lab: the 30 levels of DMLab-30, with the frames and actions of the IMPALA paper.

The engine is built from its sources (docs/dmlab.md). Rewards, frames and episode ends are the engine's own;
the adapter chooses the level and its seed, and translates 9 actions for the engine.
"""

import contextlib
import dataclasses
import hashlib
import logging
import os
import shutil
import types
import uuid
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.base import EnvironmentConfig, Suite, hint
from seed_rl.environments.observations import NUM_WORDS, VOCABULARY_SIZE, hash_words
from seed_rl.options import option

# Of the engine's name for a level.
PREFIX = "contributed/dmlab30/"

# 28 levels are for training and for the final test. Two come as a pair: the `_train` variant, and the `_test`
# variant, which shows what the first one holds out. The set counts 30 tasks, so a pair is one task.
_PAIRS = ("rooms_collect_good_objects", "rooms_exploit_deferred_effects")

# In the published order; each pair is listed under the name that its variants share.
TASKS = (
    *_PAIRS,
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "language_select_described_object",
    "language_select_located_object",
    "language_execute_random_task",
    "language_answer_quantitative_question",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_small",
    "lasertag_one_opponent_large",
    "lasertag_three_opponents_large",
    "natlab_fixed_large_map",
    "natlab_varying_map_regrowth",
    "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "explore_object_locations_small",
    "explore_object_locations_large",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
)


def level(game: str, held_out: bool) -> str:
    """The name of a level, without the prefix.

    Args:
      game: a task or a level, with or without the prefix `contributed/dmlab30/`; for a pair, any name.
      held_out: whether it is the level that DMLab-30 tests on, whose name scores are published under, or the
        level that an agent trains on.

    Raises:
      ValueError: DMLab-30 has no such level; the message lists the nearest names.
    """
    name = game.removeprefix(PREFIX)
    is_of_a_pair = any(name in (f"{pair}_train", f"{pair}_test") for pair in _PAIRS)
    task = name.rpartition("_")[0] if is_of_a_pair else name
    if task not in TASKS:
        choice = hint(name, TASKS, "; docs/dmlab.md lists them")
        raise ValueError(f"--game={game} is not a level of DMLab-30{choice}.")
    if task not in _PAIRS:
        return task
    return f"{task}_test" if held_out else f"{task}_train"


# DMLab-30's evaluation mixes this into every seed, so that it does not play levels seen in training.
EVALUATION_MIXER_SEED = 0x600D5EED

# The 9 actions of Espeholt et al., "IMPALA", 2018, each in the engine's format, applied in every frame:
# (look right in pixels, look up in pixels, strafe right, move forward, fire, jump, crouch).
ACTIONS = (
    (0, 0, 0, 1, 0, 0, 0),  # forward
    (0, 0, 0, -1, 0, 0, 0),  # backward
    (0, 0, -1, 0, 0, 0, 0),  # strafe left
    (0, 0, 1, 0, 0, 0, 0),  # strafe right
    (-20, 0, 0, 0, 0, 0, 0),  # look left
    (20, 0, 0, 0, 0, 0, 0),  # look right
    (-20, 0, 0, 1, 0, 0, 0),  # look left, forward
    (20, 0, 0, 1, 0, 0, 0),  # look right, forward
    (0, 0, 0, 0, 1, 0, 0),  # fire
)

_FPS = 60
_FRAME = "RGB_INTERLEAVED"
_INSTRUCTION = "INSTR"


@dataclasses.dataclass(frozen=True)
class DmlabConfig(EnvironmentConfig):
    """Settings of DeepMind Lab; the defaults are those of the paper's section 4.1."""

    num_action_repeats: int = option(
        4, "Environment frames per agent step: each action is applied this many times (paper: 4).", at_least=1
    )
    game: str = option(
        "explore_goal_locations_small",
        "Name of a DMLab-30 level, such as rooms_watermaze; the prefix contributed/dmlab30/ may be left out.",
    )
    width: int = option(96, "Width of frames, in pixels; a multiple of 4 (paper: 96).", at_least=4)
    height: int = option(72, "Height of frames, in pixels; a multiple of 4 (paper: 72).", at_least=4)
    instruction: bool = option(
        False,
        "Whether the level's instruction is part of the observation, as the numbers of its first 16 words; "
        "the language_ levels need it.",
    )
    hold_out_levels: bool = option(
        False,
        "Whether to play the levels that DMLab-30 holds out for the final test: the _test variant of a level "
        "that has one. Evaluation turns this on.",
    )
    mixer_seed: int = option(
        0,
        "Number that the engine mixes into level seeds, so different numbers give different levels. 0 for "
        "training; evaluation sets 0x600D5EED, as DMLab-30 prescribes.",
        at_least=0,
        at_most=2**31 - 1,
    )
    level_cache: str | None = option(
        None,
        "Directory, or URL such as gs://bucket/levels, where actors share compiled levels (paper: used).",
    )
    renderer: str = option(
        "software",
        "Whether the frames are rendered on the CPU (software) or on a GPU (hardware).",
        choices=("software", "hardware"),
    )
    dataset_path: str | None = option(
        None, "Directory of the images that two psychlab_ levels show; see docs/dmlab.md.", is_path=True
    )

    def for_evaluation(self) -> "DmlabConfig":
        """DMLab-30's protocol: the level's test variant, and levels never seen in training."""
        return dataclasses.replace(
            self, random_start_steps=0, hold_out_levels=True, mixer_seed=EVALUATION_MIXER_SEED
        )

    def validate(self) -> None:
        """Checks the level's name and the frame size."""
        level(self.game, held_out=False)
        for name, size in (("width", self.width), ("height", self.height)):
            if size % 4:
                raise ValueError(
                    f"--{name}={size} is not valid; the engine draws only multiples of 4, such as "
                    f"{size - size % 4 + 4}."
                )

    @property
    def level(self) -> str:
        """The level that is played, by the engine's name for it."""
        return PREFIX + level(self.game, self.hold_out_levels)

    @property
    def engine_settings(self) -> dict[str, str]:
        """The settings for the engine, which accepts only text."""
        settings = {
            "width": str(self.width),
            "height": str(self.height),
            "fps": str(_FPS),
            "mixerSeed": str(self.mixer_seed),
            "logLevel": "WARN",
        }
        if self.hold_out_levels:
            settings["allowHoldOutLevels"] = "true"
        if self.dataset_path is not None:
            settings["datasetPath"] = self.dataset_path
        return settings


class Dmlab(gymnasium.Env):
    """One level. Observations are frames, uint8 `[height, width, 3]`.

    With `instruction` they are dicts of the `frame` and the `instruction`, int32 `[16]` (see `hash_words`).

    * Episode ends: the engine reports that an episode is over, but not why. Most levels last a fixed time,
      and the paper's agents were trained with every end as a termination, so every end is `terminated` here.
    * The last observation: the engine returns none once an episode is over. That step repeats the observation
      of the previous step.
    * Seeds: each episode is played with a seed from `np_random` and a number that counts episodes. A `reset`
      with a seed restarts both, so that the same seed gives the same episodes.
    """

    def __init__(self, config: DmlabConfig, seed: int):
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": _FPS}
        self.render_mode = "rgb_array"
        try:
            import deepmind_lab
        except ImportError as error:
            raise ImportError(
                f"DeepMind Lab cannot be imported ({error}); docs/dmlab.md says how to build and install it."
            ) from error
        self._num_action_repeats = config.num_action_repeats
        self._has_instruction = config.instruction
        self._actions = [np.array(action, np.intc) for action in ACTIONS]
        self.action_space = spaces.Discrete(len(ACTIONS))
        frames = spaces.Box(0, 255, (config.height, config.width, 3), np.uint8)
        words = spaces.MultiDiscrete(np.full(NUM_WORDS, VOCABULARY_SIZE), dtype=np.int32)
        self.observation_space = (
            spaces.Dict({"frame": frames, "instruction": words}) if config.instruction else frames
        )
        cache = None if config.level_cache is None else LevelCache(config.level_cache)
        self._lab = deepmind_lab.Lab(
            config.level,
            [_FRAME, _INSTRUCTION] if config.instruction else [_FRAME],
            config=config.engine_settings,
            renderer=config.renderer,
            level_cache=cache,
        )
        self._episode = 0
        self._last: dict[str, Any] = {_FRAME: np.zeros(frames.shape, np.uint8), _INSTRUCTION: ""}
        super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, on a level that the engine generates from the episode's seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._episode = 0
        self._lab.reset(episode=self._episode, seed=int(self.np_random.integers(2**31)))
        self._episode += 1
        self._last = self._lab.observations()
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One agent step: `num_action_repeats` environment frames, or fewer if the episode ends."""
        reward = self._lab.step(self._actions[action], num_steps=self._num_action_repeats)
        if not self._lab.is_running():
            return self._observation(), float(reward), True, False, {}
        self._last = self._lab.observations()
        return self._observation(), float(reward), False, False, {}

    def render(self) -> np.ndarray:
        """The last frame, uint8 `[height, width, 3]`; black before the first `reset`."""
        return self._last[_FRAME].copy()

    def close(self) -> None:
        """Shuts the engine down; a second call does nothing."""
        self._lab.close()

    def _observation(self) -> Any:
        """The engine's last observation, in arrays that belong to the caller."""
        frame = self._last[_FRAME].copy()
        if not self._has_instruction:
            return frame
        return {"frame": frame, "instruction": hash_words(self._last[_INSTRUCTION])}


_log = logging.getLogger(__name__)


class LevelCache:
    """A cache of compiled levels that many actors share (SEED RL, appendix A.1.1).

    Most levels are generated at random for each episode, and compiling one takes far longer than an agent
    step. The engine calls `fetch` with a level's key before it compiles the level, and `write` afterwards.

    Both are safe with any number of actors at a time: a file gets its name only when it is complete. A cache
    that fails costs time but never ends the actor: a failed `fetch` is a miss, a failed `write` is ignored,
    and the first failure of either kind is logged.
    """

    def __init__(self, location: str):
        """The cache in a local directory, which is created if needed, or at a URL such as gs://bucket/levels.

        A directory may be one that several machines have mounted. URLs go through fsspec: object stores, and
        anything else that it has a package for. The store itself is first contacted by `fetch`.

        Raises:
          ValueError: the directory cannot be created, or the URL's protocol is not known; one sentence.
          ImportError: fsspec, or its package for the URL's protocol, is not installed; one sentence.
        """
        self._location, self._is_made = location, False
        self._logged: set[str] = set()
        if "://" in location:
            self._files, self._root = _file_system(location)
            return
        self._root = os.path.expanduser(location)
        # The part of an fsspec file system that the cache needs, without fsspec.
        self._files = types.SimpleNamespace(
            get_file=shutil.copyfile,
            put_file=shutil.copyfile,
            mv=os.replace,
            rm_file=os.remove,
            makedirs=os.makedirs,
        )
        try:
            os.makedirs(self._root, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"--level_cache={location} cannot be created ({error.strerror}); choose a directory that "
                "this actor may write to."
            ) from error

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the level with this key to `pk3_path`; False if the cache does not have it."""
        partial = f"{pk3_path}.{uuid.uuid4().hex}.tmp"
        try:
            self._files.get_file(self._path(key), partial)
            os.replace(partial, pk3_path)
        except FileNotFoundError:
            return False
        except Exception as error:
            self._log_once("read", error)
            return False
        finally:
            with contextlib.suppress(OSError):
                os.remove(partial)
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the level at `pk3_path` under this key, and replaces any that was there."""
        path = self._path(key)
        partial = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            if not self._is_made:
                self._files.makedirs(self._root, exist_ok=True)
                self._is_made = True
            try:
                self._files.put_file(pk3_path, partial)
                self._files.mv(partial, path)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._files.rm_file(partial)
                raise
        except Exception as error:
            self._log_once("written", error)

    def _path(self, key: str) -> str:
        """A path that is valid in every file system and differs for every key, whatever the key contains."""
        return f"{self._root}/{hashlib.sha256(key.encode()).hexdigest()}.pk3"

    def _log_once(self, what: str, error: Exception) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning(
                "The level cache %s cannot be %s, so levels are compiled again (%s: %s); logged once.",
                self._location,
                what,
                type(error).__name__,
                error,
            )


def _file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system for a URL, and the path in it."""
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(
            f"--level_cache={url} is a URL, which needs fsspec and its package for that store, gcsfs for "
            f"gs:// or s3fs for s3:// ({error}): pip install fsspec gcsfs."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"--level_cache={url} is not valid ({error}); use a directory, or a URL that fsspec supports, "
            "such as gs://bucket/levels."
        ) from error
    return files, str(root).rstrip("/")


SUITE = Suite(DmlabConfig, lambda config, seed, render_mode=None: Dmlab(config, seed))
