"""Time of the parts of an agent step of the suite `atari`; a part of benchmarks.atari_engines."""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from seed_rl.environments.suites.atari import Atari, AtariConfig

_CALLS = 100
_REPEATS = AtariConfig().num_action_repeats


def microseconds(game: str, rounds: int) -> dict[str, float]:
    """Medians over rounds of what an agent step and its parts take, in microseconds.

    Args:
      game: its name.
      rounds: rounds, each with 100 agent steps and 100 calls of each part, all in turn.

    Returns:
      `emulator`: the environment frames alone; `agent_step`: all of it, with the same actions from the same
      state of the game; `grayscale`: the conversion of two screens; `maximum`: of the two; `resize`.

    Raises:
      ImportError: ale-py or OpenCV is not installed.
      ValueError: there is no such game.
    """
    env = Atari(AtariConfig(game=game), 0)
    import cv2

    env.reset()
    actions = np.random.default_rng(0).integers(env.action_space.n, size=_CALLS * (rounds + 1)).tolist()
    ale, screens = env._ale, env._frames
    pooled = np.maximum(*screens)

    def step(action: int) -> None:
        if any(env.step(action)[2:4]):
            env.reset()

    def emulate(action: int) -> None:
        for _ in range(_REPEATS):
            ale.act(env._actions[action])
        if ale.game_over():
            ale.reset_game()

    def convert(_: int) -> None:
        for screen in screens:
            ale.getScreenGrayscale(screen)

    resize = functools.partial(cv2.resize, pooled, (84, 84), interpolation=cv2.INTER_LINEAR)
    parts: dict[str, Callable[[int], Any]] = {
        "emulator": emulate,
        "agent_step": step,
        "grayscale": convert,
        "maximum": lambda _: np.maximum(*screens, out=pooled),
        "resize": lambda _: resize(),
    }
    found: dict[str, list[float]] = {name: [] for name in parts}
    for begin in range(0, len(actions), _CALLS):
        state = ale.cloneState()
        for name, part in parts.items():
            if part is step:  # It plays what the emulator alone has just played.
                ale.restoreState(state)
            found[name].append(_microseconds_a_call(part, actions[begin : begin + _CALLS]))
    return {name: statistics.median(times[1:]) for name, times in found.items()}  # The first one warms up.


def _microseconds_a_call(call: Callable[[int], Any], actions: list[int]) -> float:
    begin = time.perf_counter()
    for action in actions:
        call(action)
    return (time.perf_counter() - begin) / len(actions) * 1e6
