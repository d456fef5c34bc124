"""Cost of 10^9 environment frames with SEED and with IMPALA, by the results of benchmarks.impala.

The price of a core is that of gcp/prices.yaml, with its date; --core_price sets another one. Actors and
learner both run on such cores here, so what they cost are their CPU seconds. Traffic within a zone costs
nothing. A balanced cluster has so many actor cores for each core of the learner as the column `balanced`
says. The last lines say at which width of the network central inference begins to be cheaper (SEED RL,
section 4.4.1, Tables 4 and 5).
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import medians, print_result, print_table
from benchmarks.impala import WAYS
from seed_rl.files import read_yaml
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.options import Options, option

_PRICES = Path(__file__).parents[1] / "gcp" / "prices.yaml"
_FAMILY = "n1-standard-"
_WIDTHS = {"pong": 1, "width_2": 2, "width_4": 4}

# By case and way: figures of benchmarks.impala, medians over rounds.
Measured = Mapping[tuple[str, str], Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class CostConfig(Options):
    """Settings of the comparison of costs."""

    measured: str = option("runs/impala.json", "What benchmarks.impala has written.", is_path=True)
    core_price: float | None = option(None, "US dollars for a CPU core and an hour.", above=0)


def main(argv: list[str]) -> int:
    """Prints the costs and the widths at which they are equal."""
    config, _ = parse_options(argv, __doc__ or "", CostConfig)
    measured, price = read(Path(config.measured)), config.core_price
    if price is None:
        price = read_yaml(_PRICES)["machines"][_FAMILY]
    rows, result = [], {}
    for (case, way), figures in measured.items():
        # So many cores are busy at 1,000 frames/s.
        actors, learner = (
            dollars_per_billion(figures[f"{who}_cpu_secs_per_1000"] * price, 1e3)
            for who in ("actor", "learner")
        )
        balanced = figures["actor_cpu_secs_per_1000"] / figures["learner_cpu_secs_per_1000"]
        rows.append([case, way, actors, learner, actors + learner, balanced])
        result[f"{case}/{way}"] = {"actors": actors, "learner": learner, "balanced": balanced}
    title = f"US dollars for 10^9 environment frames, at ${price:g} for a core and an hour"
    print_table(title, ["case", "way", "actors", "learner", "total", "balanced"], rows)
    for way in WAYS:
        if way != "actor":
            print(f"\n{way}: {break_even(measured, way)}")
    print_result({"core_price": price, "costs": result})
    return 0


def dollars_per_billion(dollars_per_hour: float, frames_per_second: float) -> float:
    """The cost of 10^9 environment frames at a speed."""
    return dollars_per_hour * 1e9 / (3600 * frames_per_second)


def read(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """The figures that benchmarks.impala has written, medians over its rounds.

    Raises:
      UsageError: there are none.
    """
    rounds: dict[tuple[str, str], list[dict[str, float]]] = {}
    try:
        for key, figures in json.loads(path.read_text()).items():
            case, way = key.split("/")[:2]
            rounds.setdefault((case, way), []).append(figures)
        found = {key: medians(several) for key, several in rounds.items()}
        if not found:
            raise ValueError("it is empty")
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path} has no results of benchmarks.impala ({error}); run python -m benchmarks impala first."
        ) from None
    return found


def break_even(measured: Measured, way: str) -> str:
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
