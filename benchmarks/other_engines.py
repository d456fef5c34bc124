"""Atari through other engines than `seed_rl.environments.suites.atari`, as far as they follow Table 9.

* `envpool`: EnvPool, which has an emulator of its own. It resizes bilinearly.
* `vector`: ale-py's vector environment. It can only resize by area, so it returns whole screens here, which
  are then resized bilinearly by OpenCV.

Both run with one thread: an actor has one core.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from gymnasium.vector import AutoresetMode

from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.atari import SUITE, AtariConfig, AtariPool
from seed_rl.environments.vector import RESET_MASK

_SIZE = 84


class Engine(Protocol):
    """E environments of one game. An environment whose episode terminates is reset in the same agent step."""

    num_actions: int

    def reset(self) -> np.ndarray:
        """Starts new games; returns frames uint8 `[E, 84, 84]`, which the next call may overwrite."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One agent step with int32 actions `[E]`.

        Returns:
          Frames `[E, 84, 84]`, which are the first of a new episode where the last one has terminated;
          rewards `[E]`; whether an episode has terminated, `[E]`. The next call may overwrite them.
        """

    def close(self) -> None:
        """Ends its threads."""


class Ours:
    """The suite `atari`."""

    def __init__(self, game: str, num_envs: int, max_random_noops: int):
        """Makes the environments; episodes start with 1 to `max_random_noops` no-ops, or with none if 0."""
        config = AtariConfig(game=game, max_random_noops=max_random_noops)
        self._batch = SingleEnvironments(SUITE, config, list(range(num_envs)))
        num_values = self._batch.spec.action.num_values
        assert num_values is not None
        self.num_actions = int(np.max(num_values))

    def reset(self) -> np.ndarray:
        """See `Engine`."""
        return self._batch.reset().observation

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Engine`."""
        output, _ = self._batch.step(actions)
        return output.observation, output.reward, output.done

    def close(self) -> None:
        """See `Engine`."""
        self._batch.close()


class EnvPool:
    """EnvPool. It resets an environment one agent step late, unless a call resets it at once."""

    def __init__(self, game: str, num_envs: int, max_random_noops: int):
        """Makes the environments; episodes start with 1 to `max_random_noops` no-ops.

        Raises:
          ImportError: EnvPool is not installed.
        """
        config = AtariConfig(game=game, engine="envpool", max_random_noops=max_random_noops)
        self._pool = AtariPool(config, range(num_envs))
        self.num_actions = int(self._pool.single_action_space.n)  # type: ignore[attr-defined]

    def reset(self) -> np.ndarray:
        """See `Engine`."""
        return self._pool.reset()[0]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Engine`."""
        frames, rewards, terminated, truncated, _ = self._pool.step(actions)
        ended = terminated | truncated
        if ended.any():
            frames[ended] = self._pool.reset(options={RESET_MASK: ended})[0][ended]
        return frames, rewards, ended

    def close(self) -> None:
        """See `Engine`."""
        self._pool.close()


class AleVector:
    """ale-py's vector environment, with whole screens that are resized here."""

    def __init__(self, game: str, num_envs: int, max_random_noops: int):
        """Makes the environments; episodes start with 0 to `max_random_noops - 1` no-ops.

        Raises:
          ImportError: ale-py or OpenCV is not installed.
        """
        import cv2
        from ale_py import registration, roms
        from ale_py.vector_env import AtariVectorEnv

        self._resize = functools.partial(cv2.resize, dsize=(_SIZE, _SIZE), interpolation=cv2.INTER_LINEAR)
        rom_ids = {registration.rom_id_to_name(rom_id): rom_id for rom_id in roms.get_all_rom_ids()}
        screen = SUITE.make(AtariConfig(game=game), 0).render()  # It also limits OpenCV to one thread.
        self._pool = AtariVectorEnv(
            rom_ids[game],
            num_envs,
            num_threads=1,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=screen.shape[0],
            img_width=screen.shape[1],
            stack_num=1,
            noop_max=max_random_noops,
            use_fire_reset=False,
            full_action_space=True,
            reward_clipping=False,
        )
        self._frames = np.zeros((num_envs, _SIZE, _SIZE), np.uint8)
        self.num_actions = int(self._pool.single_action_space.n)

    def reset(self) -> np.ndarray:
        """See `Engine`."""
        return self._resized(self._pool.reset()[0])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Engine`."""
        screens, rewards, terminated, truncated, _ = self._pool.step(actions)
        return self._resized(screens), rewards, terminated | truncated

    def close(self) -> None:
        """See `Engine`."""
        self._pool.close()

    def _resized(self, screens: Sequence[np.ndarray]) -> np.ndarray:
        for screen, frame in zip(screens, self._frames, strict=True):
            self._resize(screen[0], dst=frame)
        return self._frames


# By name: the engine, and the no-ops of ours that equal a `max_random_noops` of 1 of the engine.
OTHERS: dict[str, tuple[Callable[[str, int, int], Engine], int]] = {
    "envpool": (EnvPool, 1),
    "vector": (AleVector, 0),
}
