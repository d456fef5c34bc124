"""What each style draws: the figure objects, not their pixels."""

import dataclasses

import numpy as np
import pytest

from seed_rl.plotting.canvas import save, strokes
from seed_rl.plotting.config import PlotConfig
from seed_rl.plotting.gather import gather
from seed_rl.plotting.picture import draw
from seed_rl.runs.scores import human_normalized
from tests.plotting.synthetic import write_run


def drawn(*paths, **options):
    config = PlotConfig(**options)
    groups, _ = gather(paths, config.metric, leave_out=config.style == "sorted")
    return draw(groups, config)


def legend(figure):
    """The entries of the one legend, and the note above them."""
    if not figure.legends:
        return [], ""
    (only,) = figure.legends
    return [text.get_text() for text in only.get_texts()], only.get_title().get_text()


def lines(panel):
    """By label."""
    return {line.get_label(): line for line in panel.get_lines()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two games, two agents, three seeds of one agent."""
    path = tmp_path_factory.mktemp("runs")
    for game, lowest, highest in (("Pong", -20.7, 14.6), ("Breakout", 1.7, 30.5)):
        for seed in (1, 2, 3):
            frames = 2_000_000 + 100_000 * seed
            write_run(path / game / f"v{seed}", game, "vtrace", seed, 50, frames, 20_000, lowest, highest)
        write_run(path / game / "r", game, "r2d2", 1, 40, 1_500_000, 9_000, lowest, highest)
    return path


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Twelve learning rates, which end at twelve different returns, and a run without figures."""
    path = tmp_path_factory.mktemp("sweep")
    for i in range(12):
        rate = {"learning_rate": 1e-4 * (i + 1)}
        write_run(path / f"trial_{i:03}", learner=rate, highest=100.0 * i, lowest=0.0, periods=20)
    write_run(path / "trial_fresh", learner={"learning_rate": 0.5}, metrics=False)
    return path


def test_one_run_is_two_panels_without_a_legend(runs):
    figure = drawn(runs / "Pong" / "r")
    left, right = figure.axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("environment frames (millions)", "mean return")
    assert right.get_xlabel() == "hours of training"
    assert [len(panel.get_lines()) for panel in (left, right)] == [1, 1]
    assert left.get_lines()[0].get_xdata()[-1] == pytest.approx(1.5)
    assert right.get_lines()[0].get_xdata()[-1] == pytest.approx(2.5)
    assert legend(figure) == ([], "")
    assert figure.get_suptitle() == "Pong: r2d2"


def test_seeds_are_one_line_with_a_band_up_to_what_all_have_reached(runs):
    figure = drawn(runs / "Pong")
    left, _ = figure.axes
    entries, note = legend(figure)
    assert entries == ["r2d2", "vtrace (3 runs)"] and "95% confidence interval" in note
    assert len(left.collections) == 1
    assert max(lines(left)["vtrace (3 runs)"].get_xdata()) == pytest.approx(2.1)
    colors = {line.get_color() for line in left.get_lines()}
    assert len(colors) == 2
    assert figure.get_suptitle() == "Pong"


def test_of_many_groups_the_highest_are_named(sweep):
    figure = drawn(*(sweep / f"trial_{i:03}" for i in range(12)))
    entries, _ = legend(figure)
    rates = [f"vtrace, learning_rate={1e-4 * (i + 1):.3g}" for i in (11, 10, 9, 8, 7)]
    assert entries == [*rates, "7 others, which end lower"]
    for panel in figure.axes:
        assert len(panel.get_lines()) == 12
        assert len({line.get_color() for line in panel.get_lines()}) == 6


def test_grid_has_a_panel_a_game_and_one_legend(runs):
    figure = drawn(runs, style="grid")
    assert [panel.get_title() for panel in figure.axes] == ["Breakout", "Pong"]
    assert [len(panel.get_lines()) for panel in figure.axes] == [2, 2]
    assert legend(figure)[0] == ["r2d2", "vtrace"]
    by_color = [{name: line.get_color() for name, line in lines(panel).items()} for panel in figure.axes]
    assert by_color[0] == by_color[1]
    (body,) = figure.subfigs
    assert (body.get_supxlabel(), body.get_supylabel()) == ("environment frames (millions)", "mean return")


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 3), (4, 2), (5, 3), (7, 3), (13, 4), (30, 6)])
def test_grid_leaves_no_empty_panel(runs, count, columns):
    (group,), _ = gather([runs / "Pong" / "r"])
    tasks = [group.task._replace(game=f"Game{i:02}") for i in range(count)]
    groups = [dataclasses.replace(group, task=task) for task in tasks]
    found = draw(groups, PlotConfig(style="grid")).axes
    assert [panel.get_title() for panel in found] == [task.game for task in tasks]
    assert found[0].get_gridspec().ncols == columns


def test_median_of_human_normalized_returns(runs):
    figure = drawn(runs, style="median_human_normalized")
    (panel,) = figure.axes
    assert "over 2 games (percent)" in panel.get_ylabel() and "frames (millions)" in panel.get_xlabel()
    entries, note = legend(figure)
    assert entries == ["r2d2", "vtrace"] and "stratified" in note
    line = lines(panel)["r2d2"]
    groups, _ = gather([runs / "Pong" / "r", runs / "Breakout" / "r"])
    by_hand = [
        [human_normalized("atari", group.task.game, value) for value in group.runs[0].curve.value]
        for group in groups
    ]
    np.testing.assert_allclose(line.get_ydata(), np.median(by_hand, axis=0), rtol=1e-4)
    assert max(lines(panel)["vtrace"].get_xdata()) == pytest.approx(2.1)
    assert len(panel.collections) == 1


def test_median_needs_published_scores_and_the_same_games(runs, tmp_path):
    catch = write_run(tmp_path / "catch", environment="catch", game=None)
    with pytest.raises(ValueError, match="no published human and random scores for catch"):
        drawn(runs, catch, style="median_human_normalized")
    with pytest.raises(ValueError, match=r"r2d2 has no run of Breakout.*cannot be compared"):
        drawn(runs / "Pong", runs / "Breakout" / "v1", style="median_human_normalized")


def test_sorted_is_from_the_best_to_the_worst(sweep):
    figure = drawn(sweep, style="sorted")
    (panel,) = figure.axes
    (line,) = panel.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 13))
    groups, left_out = gather([sweep], leave_out=True)
    finals = [np.mean(run.curve.value[-1:]) for group in groups for run in group.runs]
    np.testing.assert_allclose(line.get_ydata(), sorted(finals, reverse=True))
    assert [path.name for path in left_out] == ["trial_fresh"]
    (body,) = figure.subfigs
    assert body.get_supxlabel() == "rank of the hyperparameter combination, best first"
    assert body.get_supylabel() == "final mean return"


def test_strokes_can_be_told_apart():
    looks = {(stroke["color"], stroke["linestyle"]) for stroke in strokes([""] * 28)}
    assert len(looks) == 28
    with pytest.raises(ValueError, match="29 kinds of line cannot be told apart"):
        strokes([""] * 29)


@pytest.mark.parametrize(
    ("style", "ending", "start"),
    [
        ("curves", "png", b"\x89PNG"),
        ("curves", "SVG", b"<?xml"),
        ("grid", "pdf", b"%PDF"),
        ("median_human_normalized", "svg", b"<?xml"),
        ("sorted", "png", b"\x89PNG"),
    ],
)
def test_every_style_and_every_format_writes_a_file(runs, tmp_path, style, ending, start):
    figure = drawn(runs, style=style)
    figure.set_dpi(40)
    path = tmp_path / "new" / f"picture.{ending}"
    save(figure, path)
    content = path.read_bytes()
    assert content.startswith(start) and len(content) > 5000
