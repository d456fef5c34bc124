"""The text in a plot: labels of axes, their units, and short numbers."""

from collections.abc import Collection
from typing import NamedTuple

_RETURNS = {"mean_return": "mean return", "mean_evaluation_return": "mean return in evaluation"}
_UNITS = {"ms": "ms", "mib": "MiB", "updates": "updates", "seconds": "seconds"}


class Unit(NamedTuple):
    """The number that positions are divided by, and the axis's label."""

    size: float
    label: str


def frames_unit(highest: float) -> Unit:
    """The unit for an axis of up to `highest` environment frames."""
    for size, word in ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands")):
        if highest >= size:
            return Unit(size, f"environment frames ({word})")
    return Unit(1.0, "environment frames")


def time_unit(highest: float) -> Unit:
    """The unit for an axis of up to `highest` seconds."""
    for size, word in ((3600.0, "hours"), (60.0, "minutes")):
        if highest >= 2 * size:
            return Unit(size, f"{word} of training")
    return Unit(1.0, "seconds of training")


def metric_label(metrics: Collection[str]) -> str:
    """The label of the vertical axis, given the names of the metrics that are plotted.

    Returns in training and in evaluation may share an axis; the legend then says which is which.
    """
    (metric, *others) = sorted(metrics)
    if others:
        return "mean return"
    if metric in _RETURNS:
        return _RETURNS[metric]
    *words, last = metric.split("_")
    if words and last in _UNITS:
        return f"{' '.join(words)} ({_UNITS[last]})"
    return metric.replace("_", " ")


def short_number(value: float) -> str:
    """A number as short text for ticks: 250000 becomes 250k, 1500000 becomes 1.5M."""
    size, suffix = next((s for s in ((1e9, "B"), (1e6, "M"), (1e3, "k")) if abs(value) >= s[0]), (1.0, ""))
    return f"{value / size:g}{suffix}".replace("-", "\N{MINUS SIGN}")
