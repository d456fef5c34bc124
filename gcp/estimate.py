"""Estimates which machines jobs need and what they cost, before anything is submitted."""

import re
from pathlib import Path
from typing import Any

from gcp.config import JobConfig
from seed_rl.files import read_yaml

_FILE = Path(__file__).with_name("prices.yaml")


def describe(config: JobConfig, jobs: int) -> str:
    """Describes the machines and cost of `jobs` jobs of a configuration, in several lines.

    Only the cost per hour is known, because the length of a job depends on the run. The total is therefore
    the most that the jobs can cost until their time-outs.
    """
    table = read_yaml(_FILE)
    learner, actors = config.learner, config.actors
    accelerators = f" with {learner.accelerators} {learner.accelerator}" if learner.accelerator else ""
    learner_price = _machine_price(learner.machine, table, config.prices)
    if learner.accelerator and learner_price is not None:
        one = config.prices.get(learner.accelerator, table["accelerators"].get(learner.accelerator))
        learner_price = None if one is None else learner_price + learner.accelerators * one
    learner_price = None if learner_price is None else learner.replicas * learner_price
    learners = "the learner" if learner.replicas == 1 else "learners"
    actor_price = _machine_price(actors.machine, table, config.prices)
    actors_price = None if actor_price is None else actors.replicas * actor_price
    processes = f"{actors.replicas * actors.processes} actors, {actors.num_envs} environments"
    machines = f"{learner.replicas} x {learner.machine}{accelerators}"
    lines = [
        f"  {machines}: {learners}, {_dollars(learner_price)} an hour",
        f"  {actors.replicas} x {actors.machine}: {processes}, {_dollars(actors_price)} an hour",
    ]
    trials, parallel = (config.sweep.trials, config.sweep.parallel) if config.sweep else (1, 1)
    if learner_price is None or actors_price is None:
        head = "Estimate:"
        cost = f"unknown cost; add prices: {{TYPE: DOLLARS_AN_HOUR}} for types that {_FILE.name} lacks"
    else:
        discounts = "discounts (spot machines have one)" if config.spot else "discounts"
        head = (
            f"Estimate at prices of {table['date']} (gcp/{_FILE.name}), without traffic, disks, {discounts}:"
        )
        hourly = learner_price + actors_price
        most = jobs * trials * hourly * config.timeout_hours
        cost = (
            f"{_dollars(jobs * min(parallel, trials) * hourly)} an hour in all, at most {_dollars(most)} if "
            f"each takes all of its {config.timeout_hours:g} h"
        )
    return "\n".join([head, *lines, f"  {_runs(jobs, trials)}: {cost}"])


def _runs(jobs: int, trials: int) -> str:
    text = "1 job" if jobs == 1 else f"{jobs} jobs"
    return text if trials == 1 else f"{text} of {trials} trials"


def _machine_price(machine: str, table: dict[str, Any], own: dict[str, float]) -> float | None:
    """The price of one machine per hour; None if no table lists it."""
    for prices in (own, table["machines"]):
        if machine in prices:
            return prices[machine]
    match = re.fullmatch(r"(.+-)(\d+)", machine)
    per_vcpu = table["machines"].get(match.group(1)) if match else None
    return None if per_vcpu is None or match is None else per_vcpu * int(match.group(2))


def _dollars(amount: float | None) -> str:
    if amount is None:
        return "an unknown price"
    return f"${amount:,.2f}" if amount < 100 else f"${amount:,.0f}"
