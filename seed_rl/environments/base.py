"""The interface of a suite of environments: one file that defines one `Suite`.

Single environments follow the Gymnasium API (`gymnasium.Env`), so that any of its wrappers can be used.
"""

import dataclasses
import enum
from collections.abc import Callable

import gymnasium

from seed_rl.options import Options, option


class Info(enum.Enum):
    """Keys of a step's `info` dict by which a suite changes the reported figures, never the training.

    They are not strings, so no entry of an environment's own can be taken for one of these.

    RAW_REWARD: what counts towards the reported episode return, if it is not the reward itself.
    EPISODE_CONTINUES: True if `terminated` or `truncated` is set but the reported episode continues (a life
      was lost, not the game).
    EPISODE_IS_VOID: True if the episode that ends does not count: the environment failed, or the episode was
      begun at random or cut short to bring it out of step with others.
    """

    RAW_REWARD = enum.auto()
    EPISODE_CONTINUES = enum.auto()
    EPISODE_IS_VOID = enum.auto()


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(Options):
    """Settings that all environments share. Each suite adds its own."""

    num_action_repeats: int = option(
        1, "Environment frames per agent step: each action is applied this many times.", at_least=1
    )
    random_start_steps: int = option(
        0,
        "When an actor starts, each of its environments takes a random number of agent steps, up to this, "
        "with random actions, so that the environments of a run start apart (Stooke & Abbeel, 2018, section "
        "5.3). The episode that they belong to is not reported. seed_rl.evaluate takes none.",
        at_least=0,
    )

    def for_evaluation(self) -> "EnvironmentConfig":
        """The settings for evaluating an agent; by default those of training, without random starts."""
        return dataclasses.replace(self, random_start_steps=0)


@dataclasses.dataclass(frozen=True)
class Suite:
    """A family of environments behind one name.

    Attributes:
      config_class: a frozen dataclass that extends EnvironmentConfig; its fields become flags.
      make: makes one environment from (config, seed, render_mode). Observations are NumPy arrays (or dicts of
        them); the observation and action spaces are set. The render mode is Gymnasium's: left out, or
        "rgb_array" for an environment whose `render()` returns uint8 `[height, width, 3]`. Raises ValueError
        with one sentence for unknown games, and ImportError with one sentence that names the extra or script
        that installs a missing package.
    """

    config_class: type[EnvironmentConfig]
    make: Callable[..., gymnasium.Env]
