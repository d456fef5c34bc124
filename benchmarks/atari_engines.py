"""Other engines for Atari: do their frames, rewards and ends equal ours, and how fast are they?

Each plays the same random actions in the same games, processed as in Table 9 of the paper as far as the
engine can do so (benchmarks.other_engines). All start with the same number of no-ops where frames are
compared, and with the usual random number where speed is measured. Agent steps in the tables count from 1;
frame 0 is the one before the first agent step.

Speed is that of one thread. Run it on one core (`taskset -c 0 python -m benchmarks.atari_engines`), or the
thread that steps and the one that waits have a core each. The engines take turns, because the machine's speed
drifts. Goal for an engine to be worth an option: 1.1 times ours.

EnvPool is in the extra `[envpool]`.
"""

import dataclasses
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

from benchmarks.atari_parts import microseconds
from benchmarks.gameplay import ATARI_57
from benchmarks.harness import check_names, medians, print_result, print_table
from benchmarks.other_engines import OTHERS, Engine, Ours
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.options import Options, option

GOAL = 1.1

_NOOPS = 30


@dataclasses.dataclass(frozen=True)
class AtariEnginesConfig(Options):
    """Settings of the comparison of Atari engines."""

    engines: str = option(",".join(OTHERS), f"Engines, separated by commas: {', '.join(OTHERS)}.")
    games: str = option("all", "Games whose frames are compared, separated by commas; all: Atari-57.")
    agent_steps: int = option(2000, "Agent steps of each game that are compared; 0: none.", at_least=0)
    speed_games: str = option("Pong,Breakout,Seaquest,SpaceInvaders", "Games in which speed is measured.")
    num_envs: str = option("1,8,32", "Numbers of environments that are stepped together.")
    seconds: float = option(0.5, "Seconds for which each engine is measured in a round; 0: not.", at_least=0)
    rounds: int = option(5, "Rounds, each with all engines in turn.", at_least=1)

    def validate(self) -> None:
        """Checks the engines and the numbers of environments."""
        check_names("engines", self.engines, tuple(OTHERS))
        if not all(word.isdigit() and int(word) > 0 for word in self.num_envs.split(",")):
            raise ValueError(
                f"--num_envs={self.num_envs} is not valid; write numbers from 1 on, separated by commas."
            )


def main(argv: list[str]) -> int:
    """Compares the engines with ours, and prints how they differ and their speeds."""
    config, _ = parse_options(argv, __doc__ or "", AtariEnginesConfig)
    engines = config.engines.split(",")
    result: dict[str, Any] = {"benchmark": "atari_engines"}
    try:
        if config.agent_steps:
            games = list(ATARI_57) if config.games == "all" else config.games.split(",")
            result["equality"] = {name: _equality(name, games, config.agent_steps) for name in engines}
        if config.seconds:
            result |= {"goal": GOAL, "speed": _speeds(config, engines), "microseconds": _parts(config)}
    except (ImportError, ValueError) as error:  # An engine or a game that is not there.
        raise UsageError(str(error)) from error
    print_result(result)
    return 0


def _equality(name: str, games: list[str], agent_steps: int) -> dict[str, Any]:
    """Compares one engine with ours in all games."""
    found = {game: compare(name, game, agent_steps) for game in games}
    columns = ["game", "first frame", "reward", "end", "frames that differ", "by at most", "ends"]
    rows = [
        [game, *("-" if value is None else value for value in row.values())] for game, row in found.items()
    ]
    print_table(f"{name}: the first agent steps of {agent_steps} that differ from ours", columns, rows)
    return found


def compare(name: str, game: str, agent_steps: int) -> dict[str, int | None]:
    """Plays the same actions with one environment of an engine and of ours.

    Returns:
      The first agent step whose frame, reward and end differ (None: none does); the number of frames that
      differ, and the largest difference of a pixel; how many episodes of ours have ended.
    """
    make, our_noops = OTHERS[name]
    ours, theirs = Ours(game, 1, our_noops), make(game, 1, 1)
    first: dict[str, int | None] = {"frame": None, "reward": None, "end": None}
    different = largest = ends = 0
    plan = _plan(ours, agent_steps, 1)
    nothing = np.zeros(1), np.zeros(1, bool)  # No reward and no end come with the first frame.
    our_step, their_step = (ours.reset(), *nothing), (theirs.reset(), *nothing)
    for agent_step in range(agent_steps + 1):
        if agent_step:
            actions = plan[agent_step - 1]
            our_step, their_step = ours.step(actions), theirs.step(actions)
            ends += int(our_step[2][0])
        for what, our_array, their_array in zip(first, our_step, their_step, strict=True):
            if first[what] is None and not np.array_equal(our_array, their_array):
                first[what] = agent_step
        difference = int(np.abs(np.subtract(our_step[0], their_step[0], dtype=np.int16)).max())
        different, largest = different + bool(difference), max(largest, difference)
    ours.close(), theirs.close()
    return {**first, "frames": different, "largest": largest, "ends": ends}


def _speeds(config: AtariEnginesConfig, engines: list[str]) -> dict[str, Any]:
    """Measures all engines, in every game and with every number of environments."""
    found: dict[str, Any] = {}
    for game in config.speed_games.split(","):
        for num_envs in map(int, config.num_envs.split(",")):
            found[f"{game} {num_envs}"] = _speed(config, engines, game, num_envs)
    rows = [
        [*key.split(), *figures["agent_steps_per_second"].values(), *figures["ratios"].values()]
        for key, figures in found.items()
    ]
    columns = ["game", "environments", "ours", *engines, *(f"{name} / ours" for name in engines)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print_table(f"Agent steps/s with {cores} core(s), medians of {config.rounds} rounds", columns, rows)
    return found


def _parts(config: AtariEnginesConfig) -> dict[str, dict[str, float]]:
    """Measures the parts of our agent step in every game."""
    found = {game: microseconds(game, 10 * config.rounds) for game in config.speed_games.split(",")}
    columns = ["game", *(name.replace("_", " ") for name in next(iter(found.values())))]
    print_table(
        "Microseconds of an agent step of ours",
        columns,
        [[game, *parts.values()] for game, parts in found.items()],
    )
    return found


def _speed(config: AtariEnginesConfig, engines: list[str], game: str, num_envs: int) -> dict[str, Any]:
    """The agent steps/s of each engine, and how they compare with ours in the same round."""
    made: dict[str, Engine] = {"ours": Ours(game, num_envs, _NOOPS)}
    made |= {name: OTHERS[name][0](game, num_envs, _NOOPS) for name in engines}
    for engine in made.values():
        engine.reset()
    rounds = [
        {name: _measured(engine, num_envs, config.seconds) for name, engine in made.items()}
        for _ in range(config.rounds)
    ]
    for engine in made.values():
        engine.close()
    ratios = {name: statistics.median(speeds[name] / speeds["ours"] for speeds in rounds) for name in engines}
    return {"agent_steps_per_second": medians(rounds), "ratios": ratios}


def _measured(engine: Engine, num_envs: int, seconds: float) -> float:
    """Agent steps/s, of all environments together."""
    plan = _plan(engine, 1000, num_envs)
    begin, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        engine.step(plan[count % len(plan)])
        count += 1
    return count * num_envs / elapsed


def _plan(engine: Engine, agent_steps: int, num_envs: int) -> np.ndarray:
    """Random actions, int32 `[agent_steps, num_envs]`: the same ones for all engines."""
    return np.random.default_rng(0).integers(engine.num_actions, size=(agent_steps, num_envs), dtype=np.int32)


if __name__ == "__main__":
    run_main(main, sys.argv)
