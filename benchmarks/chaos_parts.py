"""Parts of `benchmarks chaos`: its game, checks of what is trained on of it, and its proxy. No TensorFlow."""

import contextlib
import dataclasses
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.algorithms.registry import AlgorithmEntry
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.options import option, part
from seed_rl.runs.layout import RunDirectory

# The variable with the directory where a run's environments and its learner report.
DIRECTORY = "SEED_RL_CHAOS_DIRECTORY"
NETWORK = ("cut", "delay", "throttle", "stall", "half-open", "duplicate")
ACTIONS = 65521  # A prime number.
TASK, NAME, EPISODE, STEP, CLOCK = range(5)  # The columns of an observation.
_UNIT = np.eye(5, dtype=np.int64)
_STEP_SECS = 0.004


@dataclasses.dataclass(frozen=True)
class WitnessConfig(AlgorithmOptions):
    """Settings of the agent that chooses the right actions, and checks what it trains on."""

    queue: FifoConfig = part(FifoConfig)
    unroll_length: int = option(5, "Transitions in an unroll, in agent steps.", at_least=1)


Entry = AlgorithmEntry("benchmarks.chaos_parts:WitnessConfig", "benchmarks.chaos_witness:Witness")


def report(sentence: str) -> None:
    """Appends a violation to the file of the run."""
    with open(Path(os.environ[DIRECTORY]) / "violations.txt", "a") as file:
        file.write(f"{sentence}\n")


def answer(seen: Any) -> Any:
    """The right actions after observations `[..., 5]` of int64, arrays or tensors."""
    return (seen[..., NAME] * 31 + seen[..., EPISODE] * 7919 + seen[..., STEP] * 104_729 + 17) % ACTIONS


def ends(seen: np.ndarray) -> tuple[Any, Any]:
    """The number of steps of the observations' episodes, and whether these end by truncation."""
    return 4 + (seen[..., NAME] + 5 * seen[..., EPISODE]) % 9, (seen[..., NAME] + seen[..., EPISODE]) % 3 == 0


def reward(action: Any, seen: np.ndarray) -> Any:
    """The rewards for actions after observations."""
    return (7 * action + seen[..., STEP]) % 1000


class Counting(gymnasium.Env):
    """Observes its actor's task, a number of its own, the episode, the step, and the time (1/100 s)."""

    observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (5,), np.int32)
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def __init__(self) -> None:
        task = next((int(argument[7:]) for argument in sys.argv if argument.startswith("--task=")), 0)
        self._seen = np.array([task, int.from_bytes(os.urandom(4)) >> 1, 0, 0, 0])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Starts the next episode; the same once more if it has no step."""
        if self._seen[STEP]:
            self._seen[EPISODE], self._seen[STEP] = self._seen[EPISODE] + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Checks that the action is the answer to the last observation."""
        if action != answer(self._seen):
            report(f"action {action} is not the answer to {self._seen.tolist()}")
        time.sleep(_STEP_SECS)
        earned, (length, truncates) = float(reward(int(action), self._seen)), ends(self._seen)
        self._seen[STEP] += 1
        is_end = self._seen[STEP] == length
        return self._observe(), earned, bool(is_end and not truncates), bool(is_end and truncates), {}

    def _observe(self) -> np.ndarray:
        self._seen[CLOCK] = int(100 * time.monotonic())
        return self._seen.astype(np.int32)


gymnasium.register("Counting-v0", f"{__name__}:Counting")


def before(seen: np.ndarray) -> np.ndarray:
    """The observations before those `[B, 5]`; -1 before the first ones of environments."""
    ended = seen - _UNIT[EPISODE]
    length, truncates = ends(ended)
    ended[:, STEP] = length - ~truncates
    last = np.where(seen[:, [STEP]] == 0, ended, seen - _UNIT[STEP])
    return np.where(last[:, [EPISODE]] < 0, -1, last)


def wrong(batch: dict[str, np.ndarray], known: dict[tuple[int, ...], int]) -> dict[str, np.ndarray]:
    """What is wrong with unrolls `[S, B, ...]`: masks `[B]` by what it is.

    `known` has the last step trained on of each environment so far, and is updated.
    """
    seen, state, done = batch["observation"].astype(np.int64), batch["state"], batch["done"]
    past = np.concatenate([before(seen[0])[None], seen[:-1]])
    is_new = (past[0] < 0).all(axis=1)
    # A new learner does not know the step before an episode that begins.
    is_fresh = (state == -1).all(axis=1) & done[0]
    length, truncates = ends(past)
    after_truncation, is_end = past[..., STEP] == length, past[..., STEP] + 1 == length
    truncated = is_end & truncates
    begins = after_truncation | (is_end & ~truncates)
    begins[0] |= is_new
    rewards, prev_action = np.where(after_truncation, 0, reward(answer(past), past)), answer(past)
    rewards[0, is_new], prev_action[0, is_fresh] = 0, 0
    next_seen = np.where(begins[..., None], past + _UNIT[EPISODE], past + _UNIT[STEP])
    next_seen[..., STEP] *= ~begins
    position = 32 * seen[..., EPISODE] + seen[..., STEP]
    found = {
        "several environments": (seen[..., :EPISODE] != seen[0, :, :EPISODE]).any(axis=(0, 2)),
        "not consecutive": (seen[..., EPISODE:CLOCK] != next_seen[..., EPISODE:CLOCK]).any(axis=(0, 2)),
        "time goes back": (np.diff(seen[..., CLOCK], axis=0) < 0).any(axis=0),
        "state": (state[:, :CLOCK] != past[0, :, :CLOCK]).any(axis=1) & ~is_fresh,
        "weight": batch["weight"] != 1,
        "trained on twice": np.zeros(len(state), bool),
    }
    right = {"done": begins, "truncated": truncated, "reward": rewards, "prev_action": prev_action}
    for name, values in (right | {"action": answer(seen)}).items():
        found[name] = (batch[name] != values).any(axis=0)
    for column, key in enumerate(map(tuple, seen[0, :, :EPISODE].tolist())):
        found["trained on twice"][column] = position[0, column] < known.get(key, 0)
        known[key] = int(position[-1, column])
    return found


class Run:
    """A run: its directory, its checkpoints, its actors' tasks, and what was trained on."""

    def __init__(self, directory: Path, num_tasks: int):
        directory.mkdir()
        np.zeros(2 + num_tasks, np.int64).tofile(directory / "trained")
        self.trained = np.memmap(directory / "trained", np.int64, "r")
        self.directory, self.tasks = directory, range(num_tasks)
        self.checkpoints = RunDirectory(directory / "run").checkpoints

    def trains(self, tasks: Sequence[int], since: float) -> bool:
        """Whether there has been training on unrolls that each of these actors has begun since then."""
        return bool((self.trained[2:][list(tasks)] > 100 * since).all())

    def saved(self) -> float:
        """The time of the newest checkpoint, by `time.monotonic`."""
        index = self.checkpoints.prefixes()[0].name + ".index"
        return (self.checkpoints.path / index).stat().st_mtime - time.time() + time.monotonic()


class Proxy:
    """A TCP proxy.

    Attributes:
      port: its own.
      target: the port that new connections go to.
      fault: what happens to bytes that come: one of `NETWORK`, or nothing.
    """

    def __init__(self) -> None:
        self.target, self.fault, self._open = 0, "", set[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *ends: socket.socket) -> None:
        """Ends all connections, or that of these two ends."""
        for end in ends or list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            near = self._server.accept()[0]
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        self._open.add(source)
        is_lost = False
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                is_lost |= self.fault == "half-open"  # For good.
                if self.fault == "duplicate":
                    self.fault, data = "", data + data[len(data) // 2 :]
                size = 50 if self.fault == "throttle" else len(data)
                for piece in (data[i : i + size] for i in range(0, len(data), size)):
                    time.sleep({"delay": 0.2, "throttle": 0.02}.get(self.fault, 0.0))
                    while self.fault == "stall":
                        time.sleep(0.02)
                    if not is_lost:
                        sink.sendall(piece)
        self.cut(source, sink)
        self._open.remove(source)
