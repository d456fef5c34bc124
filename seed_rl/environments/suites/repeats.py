"""Action repeat for environments whose engine has none."""

import gymnasium
from gymnasium.wrappers import RepeatAction

from seed_rl.environments.base import EnvironmentConfig


def repeat_actions(env: gymnasium.Env, config: EnvironmentConfig) -> gymnasium.Env:
    """Applies each action for `config.num_action_repeats` environment frames and sums the rewards.

    The repeat stops if the episode ends. The observation and the info are those of the last frame.
    """
    if config.num_action_repeats == 1:
        return env
    return RepeatAction(env, config.num_action_repeats)
