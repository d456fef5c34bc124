"""Random actions that decorrelate the first episodes of environments.

Stooke & Abbeel, "Accelerated Methods for Deep Reinforcement Learning" (2018), section 5.3, "Start State
Decorrelation": with many simulators, learning failed early, because their starting states were correlated. So
every simulator first steps "through a random number of uniform-random actions".
"""

import copy
from typing import Any

import gymnasium
import numpy as np

from seed_rl.environments.actions import box_bounds

# Keeps these draws apart from those of an environment that has the same seed.
_STREAM = 1_803_028


def random_actions(space: gymnasium.Space, seed: int, most: int) -> list[Any]:
    """Draws 0 to `most` actions, each number with the same probability.

    Args:
      space: the environment's own action space, whose random state stays as it is. A huge bound, as an agent
        does not see it either, is left out: such numbers have no meaning, and may overflow.
      seed: the environment's; it alone determines the actions.
      most: the largest number of actions.

    Returns:
      Actions as `gymnasium.Env.step` takes them.
    """
    rng = np.random.default_rng((seed, _STREAM))
    count = int(rng.integers(most + 1))
    drawn_from = copy.deepcopy(space)
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = box_bounds(space)
        if (low != space.low).any() or (high != space.high).any():
            drawn_from = gymnasium.spaces.Box(low, high, dtype=space.dtype)
    drawn_from.seed(int(rng.integers(2**31)))
    return [drawn_from.sample() for _ in range(count)]
