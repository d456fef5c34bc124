"""What a suite of environments is: one file that defines one `Suite`.

Single environments speak the Gymnasium API (`gymnasium.Env`), so that any of its wrappers can be used.
Optional entries of a step's `info` dict steer the reported figures, never the training:

* `info["raw_reward"]`: what counts for the reported episode return, where it is not the reward itself;
* `info["episode_continues"]`: True where `terminated` or `truncated` is set and yet the reported episode
  goes on (a life was lost, not the game);
* `info["observation_is_repeated"]`: True where the engine gives no last observation, and the one before it
  comes again;
* `info["episode_is_void"]`: True where `truncated` is set because the environment failed, or was cut short to
  bring it out of step with others: no episode counts.
"""

import dataclasses
from collections.abc import Callable

import gymnasium

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(Options):
    """Settings that every environment has. A suite extends this with its own."""

    num_action_repeats: int = option(
        1, "Environment frames per agent step: each action is applied this many times.", at_least=1
    )

    def for_evaluation(self) -> "EnvironmentConfig":
        """The settings that an agent is evaluated with; by default those that it was trained with."""
        return self


@dataclasses.dataclass(frozen=True)
class Suite:
    """A family of environments behind one name.

    Attributes:
      config_class: a frozen dataclass that extends EnvironmentConfig; its fields become flags.
      make: makes one environment from (config, seed, render_mode). Observations are NumPy arrays (or dicts of
        them); the observation and action spaces are set. The render mode is Gymnasium's: left out, or
        "rgb_array" for an environment whose `render()` gives uint8 `[height, width, 3]`. Raises ValueError
        with one sentence for unknown games and ImportError with one sentence that names the extra or script
        that installs a missing package.
    """

    config_class: type[EnvironmentConfig]
    make: Callable[..., gymnasium.Env]
