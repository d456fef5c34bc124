"""Units, labels and short numbers."""

import pytest

from seed_rl.plotting.words import frames_unit, metric_label, short_number, time_unit


@pytest.mark.parametrize(
    ("highest", "size", "word"),
    [
        (900, 1, "environment frames"),
        (5e4, 1e3, "thousands"),
        (1e6, 1e6, "millions"),
        (4e10, 1e9, "billions"),
    ],
)
def test_frames(highest, size, word):
    unit = frames_unit(highest)
    assert unit.size == size and word in unit.label


@pytest.mark.parametrize(
    ("highest", "size", "word"),
    [(90, 1, "seconds"), (120, 60, "minutes"), (7000, 60, "minutes"), (7200, 3600, "hours")],
)
def test_time(highest, size, word):
    assert time_unit(highest) == (size, f"{word} of training")


@pytest.mark.parametrize(
    ("metrics", "label"),
    [
        (["mean_return"], "mean return"),
        (["mean_evaluation_return"], "mean return in evaluation"),
        (["mean_return", "mean_evaluation_return"], "mean return"),
        (["inference_latency_p50_ms"], "inference latency p50 (ms)"),
        (["learner_memory_mib"], "learner memory (MiB)"),
        (["updates"], "updates"),
        (["frames_per_second"], "frames per second"),
    ],
)
def test_metrics(metrics, label):
    assert metric_label(metrics) == label


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (25_000, "25k"), (-1_500_000, "\N{MINUS SIGN}1.5M"), (2e9, "2B"), (0.25, "0.25")],
)
def test_short_numbers(value, text):
    assert short_number(value) == text
