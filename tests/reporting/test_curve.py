import io

import pytest

from seed_rl.reporting.curve import TextCurve, can_draw


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
        ([(0, 0.0), (50, 9.0), (60, 9.0), (40, 1.0)], 8, "▁█"),  # A killed session went on to 60.
    ],
)
def test_a_curve_is_drawn_from_its_first_point_to_its_last(points, width, drawn):
    assert TextCurve(points).drawn(width) == drawn


def test_a_long_run_keeps_its_beginning_its_end_and_its_shape():
    curve = TextCurve((n, float(n >= 50_000)) for n in range(100_001))
    assert curve.drawn(10) == "▁▁▁▁▁█████"
    curve.add(100_002, 50.0)
    assert curve.drawn(10)[-1] == "█"


@pytest.mark.parametrize(("encoding", "can"), [("utf-8", True), ("ascii", False), ("latin-1", False)])
def test_blocks_are_drawn_where_the_encoding_has_them(encoding, can):
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == can
