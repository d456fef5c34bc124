"""Runs CleanRL's ppo_atari_envpool.py (cleanrl 1.2.0) with today's EnvPool, in an environment of its own.

The script imports the old gym, which it needs for a base class and a space, and calls EnvPool by gym's old
interface. Both are put in its place here; the script itself is the installed one, as it is.
"""

import datetime
import runpy
import sys
import time
import types
from typing import Any

import envpool
import gymnasium

_FRAMES_PER_STEP = 4


class Wrapper:
    """The part of `gym.Wrapper` that CleanRL needs: an environment whose attributes are its own."""

    def __init__(self, env: Any):
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, **kwargs: Any) -> Any:
        """Resets the environment."""
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        """Steps the environment."""
        return self.env.step(action)


class OldInterface(Wrapper):
    """EnvPool's environments by gym's old interface: `reset` without an info, `step` with one end.

    Once a second, it prints how many environment frames were played.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        self._steps, self._said = 0, 0.0

    def reset(self, **kwargs: Any) -> Any:
        """Starts new episodes; returns observations."""
        return self.env.reset(**kwargs)[0]

    def step(self, action: Any) -> Any:
        """Returns observations, rewards, ends, and an info dict."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if time.monotonic() > self._said + 1:
            self._said = time.monotonic()
            now, frames = datetime.datetime.now(), self._steps * len(action) * _FRAMES_PER_STEP
            print(f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}] Total num frames: {frames}")
        return observation, reward, terminated | truncated, info


def _main() -> None:
    gym = types.ModuleType("gym")
    gym.__dict__.update(Wrapper=Wrapper, spaces=gymnasium.spaces)
    sys.modules["gym"] = gym
    make = envpool.make

    def make_old(game: str, env_type: str, **settings: Any) -> OldInterface:
        return OldInterface(make(game, env_type="gymnasium", **settings))

    envpool.make = make_old  # type: ignore[assignment]
    runpy.run_module("cleanrl.ppo_atari_envpool", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
