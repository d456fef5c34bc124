"""Frames of real games, for benchmarks: `python -m benchmarks.gameplay DIRECTORY STEPS GAME[,GAME…]`.

A uniformly random policy plays each game with the environment processing of the paper's Table 9. The
recording is saved as DIRECTORY/GAME.npz.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness import finish, module_child, running
from seed_rl.environments.suites.atari import SUITE, AtariConfig
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.launch.child import ONE_THREAD

ATARI_57 = tuple(
    """
    Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling
    Boxing Breakout Centipede ChopperCommand CrazyClimber Defender DemonAttack DoubleDunk Enduro
    FishingDerby Freeway Frostbite Gopher Gravitar Hero IceHockey Jamesbond Kangaroo Krull
    KungFuMaster MontezumaRevenge MsPacman NameThisGame Phoenix Pitfall Pong PrivateEye Qbert
    Riverraid RoadRunner Robotank Seaquest Skiing Solaris SpaceInvaders StarGunner Surround Tennis
    TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor YarsRevenge Zaxxon
    """.split()  # noqa: SIM905
)

_SECONDS_A_STEP = 0.01  # A generous time-out, not an expected speed.


class Recording(NamedTuple):
    """Agent steps `[N, ...]` of one environment: frames uint8 `[84, 84]`, actions, rewards, `done`."""

    frames: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray


def record(directory: Path, games: list[str], steps: int, processes: int) -> None:
    """Records `steps` agent steps of each game, in this number of child processes."""
    children = [
        module_child(
            "benchmarks.gameplay",
            str(directory),
            str(steps),
            ",".join(games[index::processes]),
            log=directory / f"{index}.log",
            env=ONE_THREAD,
        )
        for index in range(min(processes, len(games)))
    ]
    with running(children):
        finish(children, 60 + _SECONDS_A_STEP * steps * len(games))


def load(directory: Path, game: str) -> Recording:
    """Loads the recording of a game that `record` saved."""
    with np.load(directory / f"{game}.npz") as arrays:
        return Recording(**arrays)


def main(argv: list[str]) -> int:
    """Plays and saves the games given on the command line."""
    if len(argv) != 4:
        raise UsageError("Run it as: python -m benchmarks.gameplay DIRECTORY STEPS GAME[,GAME…].")
    for game in argv[3].split(","):
        recording = _play(game, int(argv[2]))
        np.savez(Path(argv[1]) / f"{game}.npz", **recording._asdict())
    return 0


def _play(game: str, steps: int) -> Recording:
    environment = SUITE.make(AtariConfig(game=game), 0)
    random = np.random.default_rng(0)
    found = Recording(
        np.zeros((steps, 84, 84), np.uint8),
        random.integers(0, environment.action_space.n, steps, np.int32),
        np.zeros(steps, np.float32),
        np.zeros(steps, bool),
    )
    ended, reward = True, 0.0
    for step in range(steps):
        found.reward[step], found.done[step] = reward, ended
        if ended:
            observation, _ = environment.reset(seed=step)
        found.frames[step] = observation
        observation, reward, terminated, truncated, _ = environment.step(found.action[step])
        ended = terminated or truncated
    environment.close()
    return found


if __name__ == "__main__":
    run_main(main, sys.argv)
