import json

import numpy as np
import pytest

from seed_rl.metrics.curves import curve, drawn_curve, final_return, read_periods


def write(logdir, *lines):
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (logdir / "metrics.jsonl").write_bytes(text.encode(errors="surrogateescape"))


def period(frames, **metrics):
    return {"env_frames": frames, "seconds": frames / 10, **metrics}


def test_what_a_killed_session_played_twice_counts_once(tmp_path):
    first = [period(f, session=1) for f in (10, 20, 30, 40)]
    second = [period(f, session=2) for f in (25, 35, 45)]
    third = [period(f, session=3) for f in (45, 55)]
    write(tmp_path, *first, *second, *third)
    found = [(p["env_frames"], p["session"]) for p in read_periods(tmp_path)]
    assert found == [(10, 1), (20, 1), (25, 2), (35, 2), (45, 3), (55, 3)]


TORN = ['{"env_frames": 2', "\n", "[]\n", "3\n", "{}\n", '{"env_frames": null}\n']


@pytest.mark.parametrize(
    ("lines", "frames", "words"),
    [
        ([period(10), *TORN, period(20)], [10, 20], "5 lines from line 2 on are incomplete and skipped."),
        ([period(10), '{"env_frames": 20, "seco'], [10], "line 2 is incomplete and skipped."),
        ([period(10), "\udcff\0\udcfe"], [10], "line 2 is incomplete and skipped."),
    ],
)
def test_incomplete_lines_are_left_out_with_a_warning(tmp_path, capsys, lines, frames, words):
    write(tmp_path, *lines)
    assert [p["env_frames"] for p in read_periods(tmp_path)] == frames
    assert capsys.readouterr().err == f"seed_rl: warning: {tmp_path / 'metrics.jsonl'}: {words}\n"


def test_a_curve_has_the_periods_that_have_the_metric(tmp_path):
    returns = {20: 1.5, 30: None, 35: float("nan"), 40: 2}
    write(tmp_path, period(10), *(period(f, mean_return=value) for f, value in returns.items()))
    found = curve(read_periods(tmp_path), "mean_return")
    np.testing.assert_array_equal(found.env_frames, [20, 40])
    np.testing.assert_array_equal(found.seconds, [2, 4])
    np.testing.assert_array_equal(found.value, [1.5, 2])
    assert found.value.dtype == np.float64
    assert curve(read_periods(tmp_path), "nothing").value.size == 0


@pytest.mark.parametrize(
    ("lines", "words"), [(None, "has no metrics.jsonl; name the --logdir"), ([], "contains no metrics yet")]
)
def test_a_run_without_metrics_is_refused_in_words(tmp_path, lines, words):
    if lines is not None:
        write(tmp_path, *lines)
    with pytest.raises(ValueError, match=words) as caught:
        read_periods(tmp_path)
    assert "\n" not in str(caught.value)


def returns(count, name="mean_return"):
    return [period(50 * (i + 1), **{name: float(i)}) for i in range(count)]


EVALUATED = [{**p, "mean_return": 100.0} for p in returns(20, "mean_evaluation_return")]


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        *((returns(n), final) for n, final in ((1, 0.0), (9, 8.0), (19, 18.0), (20, 18.5), (30, 28.0))),
        (EVALUATED, 18.5),  # Evaluation counts more.
        ([*returns(20), period(1001)], 18.5),  # Periods without episodes do not count.
        ([period(1000)], None),
    ],
)
def test_the_final_return_is_of_the_last_tenth_of_the_periods(periods, expected):
    assert final_return(periods) == expected


@pytest.mark.parametrize(
    ("points", "width", "drawn"),
    [
        ([], 8, ""),
        ([(10, 1.0)], 8, ""),
        ([(0, 0.0), (1, 1.0)], 8, "▁█"),
        ([(0, 0.0), (1, 1.0)], 0, ""),
        ([(n, float(n)) for n in range(8)], 8, "▁▂▃▄▅▆▇█"),
        ([(n, float(-n)) for n in range(8)], 8, "█▇▆▅▄▃▂▁"),
        ([(n, 5.0) for n in range(4)], 4, "▁▁▁▁"),
        ([(0, 0.0), (1, 0.0), (2, 8.0), (3, 8.0)], 2, "▁█"),
        ([(0, 0.0), (90, 0.5), (100, 1.0)], 3, "▁▃█"),  # Nothing is known between the first two.
        ([(n, float(n >= 50_000)) for n in range(100_001)], 10, "▁▁▁▁▁█████"),
    ],
)
def test_a_curve_is_drawn_from_its_first_point_to_its_last(points, width, drawn):
    assert drawn_curve(points, width) == drawn
