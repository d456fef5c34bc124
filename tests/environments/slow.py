"""An environment that is slow until a file is there, for runs that must not end before something happens.

It is the `GAME` of the suite gym. The environment variable `UNTIL` has the file's path.
"""

import os
import time

import gymnasium
import numpy as np

GAME = "tests.environments.slow:Slow-v0"
UNTIL = "SEED_RL_TEST_SLOW_UNTIL"


class Slow(gymnasium.Env):
    """Episodes of ten steps with a return of 10; sixteen of them in four actors make 200 steps a second."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._played = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        if not os.path.exists(os.environ[UNTIL]):
            time.sleep(0.02)
        self._played += 1
        return np.zeros(3, np.float32), 1.0, self._played == 10, False, {}


gymnasium.register("Slow-v0", Slow)
