"""Estimates which machines jobs need and what they cost, before anything is submitted."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gcp.config import JobConfig
from seed_rl.files import read_yaml
from seed_rl.flags.errors import UsageError

_FILE = Path(__file__).with_name("prices.yaml")


def describe(config: JobConfig, jobs: int) -> str:
    """The machines and cost of so many jobs of a configuration, in several lines.

    The length of a job depends on the run, so the total is the most that jobs can cost until their time-outs.
    """
    table = read_yaml(_FILE)
    learner, actors = config.learner, config.actors
    accelerators = f" with {learner.accelerators} {learner.accelerator}" if learner.accelerator else ""
    actors_price, learner_price = _hourly(config, table)
    learners = "the learner" if learner.replicas == 1 else "learners"
    processes = f"{actors.replicas * actors.processes} actors, {actors.num_envs} environments"
    machines = f"{learner.replicas} x {learner.machine}{accelerators}"
    lines = [
        f"  {machines}: {learners}, {_dollars(learner_price)} an hour",
        f"  {actors.replicas} x {actors.machine}: {processes}, {_dollars(actors_price)} an hour",
    ]
    trials, parallel = (config.sweep.trials, config.sweep.parallel) if config.sweep else (1, 1)
    hourly = learner_price + actors_price
    if math.isnan(hourly):
        head = "Estimate:"
        cost = f"unknown cost; add prices: {{TYPE: DOLLARS_AN_HOUR}} for types that {_FILE.name} lacks"
    else:
        discounts = "discounts (spot machines have one)" if config.spot else "discounts"
        head = (
            f"Estimate at prices of {table['date']} (gcp/{_FILE.name}), without traffic, disks, {discounts}:"
        )
        most = jobs * trials * hourly * config.timeout_hours
        cost = (
            f"{_dollars(jobs * min(parallel, trials) * hourly)} an hour in all, at most {_dollars(most)} if "
            f"each takes all of its {config.timeout_hours:g} h"
        )
    runs = ("1 job" if jobs == 1 else f"{jobs} jobs") + ("" if trials == 1 else f" of {trials} trials")
    return "\n".join([head, *lines, f"  {runs}: {cost}"])


def _hourly(config: JobConfig, table: dict[str, Any]) -> tuple[float, float]:
    """US dollars an hour for all actors and all learners; NaN where no table has a price."""
    learner, actors = config.learner, config.actors
    learner_price = _machine_price(learner.machine, table, config.prices)
    if learner.accelerator:
        prices = table["accelerators"] | config.prices
        learner_price += learner.accelerators * prices.get(learner.accelerator, math.nan)
    actors_price = actors.replicas * _machine_price(actors.machine, table, config.prices)
    return actors_price, learner.replicas * learner_price


def core_price(family: str) -> float:
    """US dollars for a vCPU of a family of machines (such as `n1-standard-`) and an hour."""
    return read_yaml(_FILE)["machines"][family]


def dollars_per_billion(dollars_per_hour: float, frames_per_second: float) -> float:
    """What 10^9 environment frames cost at a speed."""
    return dollars_per_hour * 1e9 / (3600 * frames_per_second)


def describe_measured(config: JobConfig, figures: Mapping[str, float], source: str) -> str:
    """The speed and the cost of a job whose machines are as fast, core by core, as one that was measured.

    Args:
      config: of the job.
      figures: a row of benchmarks.impala.
      source: where it is from, for the message.
    """
    learner, actors = config.learner, config.actors
    speed = actors.replicas * _vcpus(actors.machine) * 1e3 / figures["actor_cpu_secs_per_1000"]
    limit = "the actors, if the accelerators keep up"
    if not learner.accelerator:
        its = learner.replicas * _vcpus(learner.machine) * 1e3 / figures["learner_cpu_secs_per_1000"]
        limit = "the actors" if speed < its else "the learner"
        speed = min(speed, its)
    actors_cost, learner_cost = (
        dollars_per_billion(price, speed) for price in _hourly(config, read_yaml(_FILE))
    )
    balanced = figures["actor_cpu_secs_per_1000"] / figures["learner_cpu_secs_per_1000"]
    return (
        f"By {source}: at most {speed:,.0f} frames/s, limited by {limit}; 10^9 frames cost "
        f"{_dollars(actors_cost + learner_cost)}: actors {_dollars(actors_cost)}, learner "
        f"{_dollars(learner_cost)}. Balanced: {balanced:.1f} actor cores for each core of the learner."
    )


def _vcpus(machine: str) -> int:
    """The cores of a machine.

    Raises:
      UsageError: its name does not end with their number.
    """
    match = re.fullmatch(r".+-(\d+)", machine)
    if not match:
        raise UsageError(
            f"--measured needs the number of cores of {machine}, whose name does not end with it; choose a "
            "machine such as n1-standard-8."
        )
    return int(match[1])


def _machine_price(machine: str, table: dict[str, Any], own: dict[str, float]) -> float:
    """The price of one machine per hour; NaN if no table lists it."""
    prices = table["machines"] | own
    if machine in prices:
        return prices[machine]
    match = re.fullmatch(r"(.+-)(\d+)", machine)
    return int(match[2]) * table["machines"].get(match[1], math.nan) if match else math.nan


def _dollars(amount: float) -> str:
    if math.isnan(amount):
        return "an unknown price"
    return f"${amount:,.2f}" if amount < 100 else f"${amount:,.0f}"
