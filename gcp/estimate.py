"""Estimates which machines jobs need and what they cost, before anything is submitted."""

import math
import re
from pathlib import Path
from typing import Any

from gcp.config import JobConfig
from seed_rl.files import read_yaml

_FILE = Path(__file__).with_name("prices.yaml")


def describe(config: JobConfig, jobs: int) -> str:
    """The machines and cost of so many jobs of a configuration, in several lines.

    The length of a job depends on the run, so the total is the most that jobs can cost until their time-outs.
    """
    table = read_yaml(_FILE)
    learner, actors = config.learner, config.actors
    accelerators = f" with {learner.accelerators} {learner.accelerator}" if learner.accelerator else ""
    learner_price = _machine_price(learner.machine, table, config.prices)
    if learner.accelerator:
        prices = table["accelerators"] | config.prices
        learner_price += learner.accelerators * prices.get(learner.accelerator, math.nan)
    learner_price *= learner.replicas
    actors_price = actors.replicas * _machine_price(actors.machine, table, config.prices)
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
