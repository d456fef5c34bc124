"""A game that counts, and checks of all that was trained on of it: for `benchmarks chaos`. No TensorFlow."""

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.algorithms.registry import AlgorithmEntry
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.options import option, part

# The variable with the directory where a run's environments and its learner report.
DIRECTORY = "SEED_RL_CHAOS_DIRECTORY"
GAME = "benchmarks.chaos_game:Counting-v0"
MOST_TASKS = 16
ACTIONS = 65521  # A prime number.
STEP_SECS = 0.004

# The columns of an observation.
TASK, NAME, EPISODE, STEP, CLOCK = range(5)


@dataclasses.dataclass(frozen=True)
class WitnessConfig(AlgorithmOptions):
    """An agent that chooses the right actions, and checks what it is given to train on."""

    queue: FifoConfig = part(FifoConfig)
    unroll_length: int = option(5, "Transitions in an unroll, in agent steps.", at_least=1)


Entry = AlgorithmEntry("benchmarks.chaos_game:WitnessConfig", "benchmarks.chaos_witness:Witness")


def report(sentence: str) -> None:
    """Appends a violation to the file in the run's directory."""
    with open(Path(os.environ[DIRECTORY]) / "violations.txt", "a") as file:
        file.write(f"{sentence}\n")


def clock() -> int:
    """The time in hundredths of a second, the same in all processes of a machine."""
    return int(100 * time.monotonic())


def answer(seen: Any) -> Any:
    """The right action after observations `[..., 5]` of int64: arrays or tensors."""
    return (seen[..., NAME] * 31 + seen[..., EPISODE] * 7919 + seen[..., STEP] * 104_729 + 17) % ACTIONS


def length(seen: np.ndarray) -> Any:
    """The number of steps in the episodes of observations."""
    return 4 + (seen[..., NAME] + 5 * seen[..., EPISODE]) % 9


def is_truncating(seen: np.ndarray) -> Any:
    """Whether the episodes of observations are truncated at their end; else they terminate."""
    return (seen[..., NAME] + seen[..., EPISODE]) % 3 == 0


def reward(action: Any, seen: np.ndarray) -> Any:
    """The reward for an action after an observation."""
    return (7 * action + seen[..., STEP]) % 1000


class Counting(gymnasium.Env):
    """Observes its actor's task, a number that no other environment has, the episode, the step, the time."""

    observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (5,), np.int32)
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def __init__(self) -> None:
        task = next((int(arg[7:]) for arg in sys.argv if arg.startswith("--task=")), 0)
        name = int.from_bytes(os.urandom(4)) >> 1
        self._seen = np.array([task, name, 0, 0, 0])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Starts the next episode, or the first one once more."""
        if self._seen[STEP]:
            self._seen[EPISODE], self._seen[STEP] = self._seen[EPISODE] + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Checks that the action is the answer to the last observation."""
        if action != answer(self._seen):
            report(f"action {action} is not the answer to {self._seen.tolist()}")
        time.sleep(STEP_SECS)
        earned = float(reward(int(action), self._seen))
        self._seen[STEP] += 1
        is_end, truncates = self._seen[STEP] == length(self._seen), is_truncating(self._seen)
        return self._observe(), earned, bool(is_end and not truncates), bool(is_end and truncates), {}

    def _observe(self) -> np.ndarray:
        self._seen[CLOCK] = clock()
        return self._seen.astype(np.int32)


gymnasium.register("Counting-v0", Counting)


class Trained(NamedTuple):
    """A batch of unrolls as a loss gets it: arrays `[S, B, ...]`; state `[B, 5]`, weight `[B]`."""

    prev_action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    truncated: np.ndarray
    observation: np.ndarray
    action: np.ndarray
    state: np.ndarray
    weight: np.ndarray


def before(seen: np.ndarray) -> np.ndarray:
    """The observations before those `[B, 5]`; -1 before the first ones of environments."""
    last = seen - np.eye(5, dtype=np.int64)[STEP]
    ended = seen - np.eye(5, dtype=np.int64)[EPISODE]
    ended[:, STEP] = length(ended) - ~is_truncating(ended)
    last = np.where((seen[:, STEP] == 0)[:, None], ended, last)
    return np.where(last[:, [EPISODE]] < 0, -1, last)


def wrong(batch: Trained, known: dict[tuple[int, int], int]) -> dict[str, np.ndarray]:
    """What is wrong with unrolls of a batch: masks `[B]` by what it is.

    `known` has the last step trained on of each environment so far, and is updated.
    """
    seen, state = batch.observation.astype(np.int64), batch.state.astype(np.int64)
    # The state is the initial one in a new environment, and at an episode's begin in a new learner.
    is_fresh = (state == -1).all(axis=1) & batch.done[0]
    past = np.concatenate([before(seen[0])[None], seen[:-1]])
    is_new = (past[0] < 0).all(axis=1)
    at_end = past[..., STEP] == length(past)  # Only where it was truncated.
    comes = past[..., STEP] + 1
    truncated = ~at_end & (comes == length(past)) & is_truncating(past)
    done = at_end | ((comes == length(past)) & ~truncated)
    done[0] |= is_new
    episode, step = np.where(done, past[..., EPISODE] + 1, past[..., EPISODE]), np.where(done, 0, comes)
    earned = np.where(at_end, 0, reward(answer(past), past))
    earned[0] = np.where(is_new, 0, earned[0])
    prev_action = answer(past)
    prev_action[0] = np.where(is_fresh, 0, prev_action[0])
    position = 32 * seen[..., EPISODE] + seen[..., STEP]
    found = {
        "several environments": (seen[..., :EPISODE] != seen[0, :, :EPISODE]).any(axis=(0, 2)),
        "not consecutive": ((seen[..., EPISODE] != episode) | (seen[..., STEP] != step)).any(axis=0),
        "time goes back": (np.diff(seen[..., CLOCK], axis=0) < 0).any(axis=0),
        "done": (batch.done != done).any(axis=0),
        "truncated": (batch.truncated != truncated).any(axis=0),
        "actions": (batch.action != answer(seen)).any(axis=0),
        "previous actions": (batch.prev_action != prev_action).any(axis=0),
        "rewards": (batch.reward != earned).any(axis=0),
        "state": (state[:, :CLOCK] != past[0, :, :CLOCK]).any(axis=1) & ~is_fresh,
        "weight": batch.weight != 1,
        "trained on twice": np.zeros(len(state), bool),
    }
    for column, key in enumerate(map(tuple, seen[0, :, :EPISODE].tolist())):
        found["trained on twice"][column] = position[0, column] < known.get(key, 0)
        known[key] = position[-1, column]
    return found
