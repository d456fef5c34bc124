"""Cost of 10^9 environment frames with SEED and with IMPALA, by the results of benchmarks.impala.

The price of a core is that of gcp/prices.yaml, with its date; --core_price sets another one. Actors and
learner both run on such cores here. `dollars` are for the cores that they allocate (seed_rl.paper.costs),
`used` for their CPU seconds. Traffic within a zone costs nothing. A balanced cluster has so many actor cores
for each core of the learner as the column `balanced` says. The last lines say at which width of the network
central inference begins to be cheaper by CPU seconds (SEED RL, section 4.4.1, Tables 4 and 5).
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import print_result, print_table
from benchmarks.impala import WAYS
from seed_rl.files import read_yaml
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import usage_errors
from seed_rl.options import Options, option
from seed_rl.paper.costs import Figures, measured_costs, read_measured

_PRICES = Path(__file__).parents[1] / "gcp" / "prices.yaml"
_FAMILY = "n1-standard-"
_WIDTHS = {"pong": 1, "width_2": 2, "width_4": 4}


@dataclasses.dataclass(frozen=True)
class CostConfig(Options):
    """Settings of the comparison of costs."""

    measured: str = option("runs/impala.json", "What benchmarks.impala has written.", is_path=True)
    core_price: float | None = option(None, "US dollars for a CPU core and an hour.", above=0)


def main(argv: list[str]) -> int:
    """Prints the costs and the widths at which they are equal."""
    config, _ = parse_options(argv, __doc__ or "", CostConfig)
    with usage_errors():
        measured = read_measured(Path(config.measured))
    price = config.core_price or read_yaml(_PRICES)["machines"][_FAMILY]
    rows, result = [], {}
    for (case, way), figures in measured.items():
        found = measured_costs(figures, price)
        found["balanced"] = figures["actor_cpu_secs_per_1000"] / figures["learner_cpu_secs_per_1000"]
        columns = ("actors", "learner", "dollars", "dollars_used", "balanced")
        rows.append([case, way, *(found.get(name, "") for name in columns)])
        result[f"{case}/{way}"] = found
    title = f"US dollars for 10^9 environment frames, at ${price:g} for a core and an hour"
    print_table(title, ["case", "way", "actors", "learner", "dollars", "used", "balanced"], rows)
    for way in WAYS:
        if way != "actor":
            print(f"\n{way}: {break_even(measured, way)}")
    print_result({"core_price": price, "costs": result})
    return 0


def break_even(measured: Mapping[tuple[str, str], Figures], way: str) -> str:
    """From which width of the network on central inference is cheaper, in a sentence."""
    ratios = {}  # Of the costs: actors that act, to this way.
    for case, width in _WIDTHS.items():
        if (case, way) in measured and (case, "actor") in measured:
            costs = [
                sum(measured[case, w][f"{who}_cpu_secs_per_1000"] for who in ("actor", "learner"))
                for w in ("actor", way)
            ]
            ratios[width] = costs[0] / costs[1]
    if len(ratios) < 2:
        return "no widths were measured."
    told = ", ".join(f"{ratio:.2f} at width {width}" for width, ratio in ratios.items())
    head = f"actors that act cost {told} of it;"
    widths = sorted(ratios)
    if all(ratio >= 1 for ratio in ratios.values()):
        return f"{head} central inference is cheaper at every width measured."
    if all(ratio < 1 for ratio in ratios.values()):
        return f"{head} actors that act are cheaper at every width measured."
    for low, high in itertools.pairwise(widths):
        if (ratios[low] < 1) != (ratios[high] < 1):
            share = math.log(1 / ratios[low]) / math.log(ratios[high] / ratios[low])
            width = low * (high / low) ** share
            cheaper = "from" if ratios[high] >= 1 else "up to"
            return f"{head} central inference is cheaper {cheaper} width {width:.1f}."
    raise AssertionError("some ratios are below 1 and some are not")
