"""Agent steps/s of a group of environments in an actor, on one core: vector environments against single ones.

A group steps, writes its records and keeps its statistics, as in an actor, and acts at random; nothing is
sent. The ways of a case take turns. Goal: CartPole's own vector environment at least 3 times the list.
"""

import dataclasses
import json
import multiprocessing
import statistics
import time

import numpy as np

from benchmarks.harness import check_names, print_result, print_table, random_actions
from seed_rl.actor.group import Group
from seed_rl.actor.loop import pin, usable_cores
from seed_rl.environments import registry
from seed_rl.environments.making import make_batch
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option

_GOAL = 3.0
_CARTPOLE = {"game": "CartPole-v1"}
_DOORKEY = "MiniGrid-DoorKey-5x5-v0"

# By case: the number of environments, and the ways to step them (suite and settings), the first as reference.
CASES = {
    "cartpole": (
        32,
        {
            "list": ("gym", _CARTPOLE),
            "sync": ("gym", _CARTPOLE | {"vectorization": "sync"}),
            "native": ("gym", _CARTPOLE | {"vectorization": "native"}),
            "envpool": ("envpool", _CARTPOLE),
        },
    ),
    "doorkey": (
        32,
        {"list": ("gym", {"game": f"minigrid:{_DOORKEY}"}), "envpool": ("envpool", {"game": _DOORKEY})},
    ),
    "halfcheetah": (
        16,
        {"list": ("gym", {"game": "HalfCheetah-v5"}), "envpool": ("envpool", {"game": "HalfCheetah-v5"})},
    ),
    "football": (8, {engine: ("football", {"engine": engine}) for engine in ("gfootball", "envpool")}),
    "empty_goal": (
        8,
        {
            engine: ("football", {"engine": engine, "game": "academy_empty_goal_close"})
            for engine in ("gfootball", "envpool")
        },
    ),
}
# A game of each family that EnvPool has; the ratios of this case mean nothing.
_FAMILIES = (
    *("CartPole-v1", "LunarLander-v3", "Taxi-v3", "HalfCheetah-v5", "CheetahRun-v1", "MetaWorld/Reach-v3"),
    *("FetchReach-v4", "MyoSuite/MyoHandAirplaneFixed-v0", "MuJoCoPlayground/PandaPickCube-v1"),
    *("MiniGrid-DoorKey-5x5-v0", "BabyAI-GoToObj-v0", "CoinrunEasy-v0", "Basic-v1", "Breakout-v5"),
    *("gfootball/11_vs_11_stochastic-v1", "Jumanji/Game2048-v1", "Highway-v0"),
)
CASES["families"] = (16, {game: ("envpool", {"game": game}) for game in _FAMILIES})


@dataclasses.dataclass(frozen=True)
class VectorsConfig(Options):
    """Settings of the benchmark of vector environments."""

    cases: str = option("cartpole,doorkey,halfcheetah,football,empty_goal", "Cases, separated by commas.")
    rounds: int = option(3, "Rounds, in each of which every way has a turn.", at_least=1)
    seconds: float = option(5.0, "Seconds of each turn.", above=0)

    def validate(self) -> None:
        """Checks the cases."""
        check_names("cases", self.cases, tuple(CASES))


def main(argv: list[str]) -> int:
    """Prints the speeds and their ratios to that of the first way."""
    config, _ = parse_options(argv, __doc__ or "", VectorsConfig)
    rows, figures = [], {}
    for case in config.cases.split(","):
        num_envs, ways = CASES[case]
        speeds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(config.rounds):
            for way in ways:
                speeds[way].append(_in_a_process(num_envs, *ways[way], config.seconds))
        first = next(iter(ways))
        for way, found in speeds.items():
            ratio = statistics.median(a / b for a, b in zip(found, speeds[first], strict=True))
            figures[f"{case}/{way}"] = {"agent_steps_per_second": statistics.median(found), "ratio": ratio}
            rows.append([case, num_envs, way, statistics.median(found), ratio])
    columns = ["case", "environments", "way", "agent steps/s", "ratio"]
    print_table("Agent steps/s of a group on one core", columns, rows)
    print_result({"benchmark": "vectors", "goal": _GOAL, "figures": figures})
    return 0


def _in_a_process(num_envs: int, suite: str, settings: dict[str, str], seconds: float) -> float:
    """The speed in a new process, on one core: some engines start threads, or cannot be made twice."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_speed, (num_envs, suite, json.dumps(settings), seconds))


def _speed(num_envs: int, name: str, settings: str, seconds: float) -> float:
    pin(usable_cores()[0])
    suite, seeds = registry.suite(name), list(range(1, num_envs + 1))
    group = Group(make_batch(suite, suite.config_class.of(**json.loads(settings)), seeds), seeds)
    try:
        rng, spec = np.random.default_rng(0), group.environment.spec
        actions = [random_actions(rng, spec.action, num_envs) for _ in range(1000)]
        group.step(actions[0])
        start, steps = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < seconds:
            group.step(actions[steps % len(actions)])
            steps += 1
        return steps * num_envs / spent
    finally:
        group.environment.close()


if __name__ == "__main__":
    run_main(main)
