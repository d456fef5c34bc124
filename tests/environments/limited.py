"""Environments whose episodes have a length that is an argument of their constructor."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Limited(gymnasium.Env):
    """Truncated after `length` agent steps, of which `terminates` says whether the last one terminates.

    The reward is the agent step plus the second action. Observes a Dict: the number of resets so far, the
    agent step, and a random number of the episode. Its figures are in the info of the last step.
    """

    observation_space = spaces.Dict(
        {
            "episode": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "start": spaces.Discrete(1000, start=5),
            "flags": spaces.Box(0, 1, (3,), np.bool_),
        }
    )
    action_space = spaces.MultiDiscrete([2, 3])

    def __init__(self, length=3, terminates=False):
        self.length, self.terminates, self.episode = length, terminates, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.played = self.episode + 1, 0
        self.start = 5 + int(self.np_random.integers(1000))
        return self.observe(), {}

    def step(self, action):
        self.played += 1
        ended = self.played >= self.length
        info = {"is_success": True, "metrics": {"length": self.played}} if ended else {}
        ends = (ended, False) if self.terminates else (False, ended)
        return self.observe(), float(action[1] + self.played), *ends, info

    def observe(self):
        return {
            "episode": np.array([self.episode, self.played], np.float32),
            "start": self.start,
            "flags": np.array([self.played % 2, 0, 1], bool),
        }


gymnasium.register("Limited-v0", Limited)
gymnasium.register("LimitedTo4-v0", Limited, max_episode_steps=4)
