"""Plays at random in an environment, in this process, and reports what training would get from it.

Examples:
  seed_rl check gym --game=my_module:MyEnv-v0
  seed_rl check gym --game=my_module:MyEnv-v0 --env_kwargs='{"size": 7}' --pdb

Actions are drawn among those that the action mask allows, if there is one. The first failure ends it, with
the traceback of the environment's own code. Exit codes: 0, 1 if the environment failed, 2 if a flag is wrong.
"""

import contextlib
import dataclasses
import json
import logging
import pdb
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError, cause_of
from seed_rl.environments.making import make_batch, suite_spec
from seed_rl.environments.suites.classic import suite_of
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.resolve import resolve
from seed_rl.messages import complain
from seed_rl.options import Options, option
from seed_rl.types import ACTION_MASK, EnvironmentSpec, EnvOutput, flatten_spec


@dataclasses.dataclass(frozen=True)
class CheckConfig(Options):
    """Settings of the check of an environment."""

    agent_steps: int = option(100, "Agent steps to play.", at_least=1)
    seed: int = option(1, "Seed of the environment and of the actions.", at_least=0)
    pdb: bool = option(False, "Whether to enter the debugger where the environment raises an error.")


def main(argv: list[str]) -> int:
    """Prints the report; returns the exit code."""
    chosen = resolve(argv, __doc__, (CheckConfig,), with_agent=False)
    if not chosen.environment:
        raise UsageError("No environment is given; write: seed_rl check gym --game=MODULE:ID.")
    config = chosen.read(CheckConfig)
    logging.basicConfig(format="%(message)s", level=logging.INFO)  # Tracebacks.
    try:
        with usage_errors():
            _play(environments.suite(chosen.environment), chosen.environment_config(), config)
    except EnvironmentFailedError as error:
        complain(f"{error.what}.")
        if config.pdb:
            pdb.post_mortem((cause_of(error) or error).__traceback__)
        return 1
    return 0


def check(
    environment: str | Callable[..., Any], agent_steps: int = 100, seed: int = 1, **settings: Any
) -> None:
    """Plays at random in an environment, in this process, and prints what training would get from it.

    Args:
      environment: a name, such as "gym", or a function that makes an environment, as for `train`.
      agent_steps: how many to play.
      seed: of the environment and of the actions.
      **settings: the environment's flags, such as `game="my_module:MyEnv-v0"`.

    Raises:
      ValueError: a setting is wrong, or what the environment returned; one sentence.
      Exception: what the environment raised.
    """
    suite = environments.suite(environment) if isinstance(environment, str) else suite_of(environment)
    named = {name: json.dumps(v) if isinstance(v, dict) else v for name, v in settings.items()}
    try:
        return _play(suite, suite.config_class.of(**named), CheckConfig(agent_steps, seed))
    except EnvironmentFailedError as error:
        cause = cause_of(error) or ValueError(f"{error.what}.")
    raise cause  # Here it keeps its own cause.


def _play(suite: Suite, settings: EnvironmentConfig, config: CheckConfig) -> None:
    rng, clock = np.random.default_rng(config.seed), time.perf_counter
    started = clock()
    # Players of a game are environments.
    size = suite_spec(suite, settings, config.seed).num_players if settings.has_players else 1
    seeds = [config.seed] * size
    with contextlib.closing(make_batch(suite, settings, seeds)) as batch:
        for name, leaf in flatten_spec(batch.spec.observation):
            print(f"observation{name and f' {name!r}'}: {leaf.unpacked}")
        print(f"action: {batch.spec.action}\nmade in {clock() - started:.3g} s", flush=True)
        output, statistics, episodes = batch.reset(seeds), EpisodeStatistics(size, batch.spec.num_players), []
        steps = []
        for _ in range(config.agent_steps):
            actions, share = _random_actions(batch.spec, output, rng)
            before = clock()
            output, infos = batch.step(actions)
            begins = (output.done & ~output.truncated).any()
            steps.append((1e3 * (clock() - before), begins, output.reward.copy(), share))
            episodes += statistics.update(output, infos)
    ms, resets, rewards, allowed = map(np.array, zip(*steps, strict=True))
    if (allowed < 1).any():
        print(f"action mask: allows {allowed.min():.0%} to {allowed.max():.0%} of the values")
    print(f"{len(ms)} agent steps: {1e3 * len(ms) / ms.sum():,.0f} per second, with resets")
    if resets.any() and not resets.all():
        usual, slowest = np.median(ms[~resets]), ms[resets].max()
        print(f"an agent step takes {usual:.3g} ms (median), with a reset up to {slowest:.3g} ms")
    print(f"rewards: {rewards.min():g} to {rewards.max():g}")
    mean = f", mean return {np.mean([e.episode_return for e in episodes]):g}" if episodes else ""
    print(f"episodes that ended: {len(episodes)}{mean}")


def _random_actions(
    spec: EnvironmentSpec, output: EnvOutput, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Actions `[E, ...]` as agents send them, and the smallest share of values that are allowed now."""
    action, size = spec.action, len(output.done)
    if not action.is_discrete:
        low, high = (np.reshape(b, -1) for b in (action.minimum or -np.inf, action.maximum or np.inf))
        low = np.where(np.isinf(low), np.minimum(high, 1) - 2, low)
        high = np.where(np.isinf(high), low + 2, high)
        drawn = rng.uniform(low, high, (size, action.size))
        return drawn.reshape(size, *action.shape).astype(np.float32), 1.0
    masks = np.ones((size, sum(action.num_values)), np.uint8)
    if isinstance(spec.observation, dict) and (leaf := spec.observation.get(ACTION_MASK)):
        masks = output.observation[ACTION_MASK]
        masks = np.unpackbits(masks, -1, count=sum(action.num_values)) if leaf.bits else masks
        masks = masks | (output.done & output.truncated)[:, np.newaxis]  # Those who are idle have none.
    parts = np.split(masks, np.cumsum(action.num_values)[:-1], axis=1)
    numbers = [[rng.choice(np.flatnonzero(mask)) for mask in part] for part in parts]
    return np.transpose(numbers).reshape(size, *action.shape).astype(np.int32), float(masks.mean(1).min())
