"""Figure objects of each style, not their pixels."""

import dataclasses

import numpy as np
import pytest

from seed_rl.plotting.groups import Variant, gather
from seed_rl.plotting.picture import draw
from seed_rl.runs.scores import published_games, published_scores
from tests.plotting.synthetic import write_run


def drawn(*paths, metric=None, **options):
    return draw(gather(paths, metric).groups, **options)


def legend(figure):
    """The entries of the one legend, and the note above them."""
    if not figure.legends:
        return [], ""
    (only,) = figure.legends
    return [text.get_text() for text in only.get_texts()], only.get_title().get_text()


def lines(panel):
    """The named lines, by label."""
    return {k: line for line in panel.get_lines() if not (k := line.get_label()).startswith("_")}


def seeds(panel):
    """The thin lines of single seeds."""
    return [line for line in panel.get_lines() if line.get_label().startswith("_child")]


def references(panel):
    """The levels of known scores, by name."""
    found = {line.get_label(): line for line in panel.get_lines()}
    return {name[1:]: found[name].get_ydata()[0] for name in ("_random", "_human", "_goal") if name in found}


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
    assert figure.get_supylabel() == "mean return" and figure.get_suptitle() == "Pong: R2D2"
    for panel, x_label, end in ((left, "environment frames", 1.5e6), (right, "hours of training", 2.5)):
        (line,) = lines(panel).values()
        assert seeds(panel) == [] and panel.get_xlabel() == x_label
        assert line.get_label() == "R2D2" and line.get_xdata()[-1] == pytest.approx(end)
    assert legend(figure) == ([], "")


def test_seeds_are_drawn_to_their_ends_and_their_mean_with_a_band(runs):
    figure = drawn(runs / "Pong")
    entries, note = legend(figure)
    assert entries == ["R2D2", "V-trace (3 runs)"] and "95% confidence interval" in note
    for panel in figure.axes:
        assert len(panel.collections) == 1 and len(seeds(panel)) == 3
    left, _ = figure.axes
    mean = lines(left)["V-trace (3 runs)"]
    assert max(mean.get_xdata()) == pytest.approx(2.1e6)
    assert sorted(max(line.get_xdata()) for line in seeds(left)) == pytest.approx([2.1e6, 2.2e6, 2.3e6])
    assert {line.get_color() for line in seeds(left)} == {mean.get_color()}
    assert len({line.get_color() for line in lines(left).values()}) == 2
    assert figure.get_suptitle() == "Pong"
    two = drawn(runs / "Pong" / "v1", runs / "Pong" / "v2")
    for panel in two.axes:
        assert not panel.collections and len(seeds(panel)) == 2 and len(lines(panel)) == 1
    assert "95%" not in legend(two)[1]


@pytest.mark.parametrize(
    ("environment", "game", "options", "expected"),
    [
        ("atari", "Pong", {}, {"random": -20.7, "human": 14.6}),
        ("atari", "NoSuchGame", {}, {}),
        ("atari", "Pong", {"metric": "entropy"}, {}),
        ("gym", "CartPole-v1", {}, {"goal": 475.0}),
        ("gym", "Pendulum-v1", {}, {}),
        ("catch", None, {}, {"goal": 0.95}),
        ("catch", None, {"style": "sorted"}, {"goal": 0.95}),
        ("atari", "Pong", {"style": "aggregate"}, {"random": 0.0, "human": 100.0}),
    ],
)
def test_known_scores_are_lines_with_names(tmp_path, environment, game, options, expected):
    run = write_run(tmp_path / "run", game, environment=environment, agent="ppo", periods=5)
    panels = drawn(run, **options).axes
    assert [references(panel) for panel in panels] == [expected] * len(panels)
    assert [text.get_text().partition("\n")[0] for text in panels[-1].texts] == list(expected)


def test_of_many_groups_the_highest_are_named(sweep):
    figure = drawn(*(sweep / f"trial_{i:03}" for i in range(12)))
    entries, _ = legend(figure)
    rates = [f"V-trace, learning rate {1e-4 * (i + 1):.3g}" for i in (11, 10, 9, 8, 7)]
    assert entries == [*rates, "7 others, which end lower"]
    for panel in figure.axes:
        curves = [line for line in panel.get_lines() if len(line.get_xdata()) > 2]
        assert len(curves) == 12
        assert len({line.get_color() for line in curves}) == 6


def test_games_have_panels_of_their_own_and_one_legend(runs):
    figure = drawn(runs)
    assert [panel.get_title() for panel in figure.axes] == ["Breakout", "Pong"]
    for panel, human in zip(figure.axes, (30.5, 14.6), strict=True):
        assert (len(lines(panel)), len(seeds(panel)), len(panel.collections)) == (2, 3, 1)
        assert panel.get_xlabel() == "environment frames" and references(panel)["human"] == human
    assert legend(figure)[0] == ["R2D2", "V-trace (3 runs)"]
    colors = [{name: line.get_color() for name, line in lines(panel).items()} for panel in figure.axes]
    assert colors[0] == colors[1]
    assert figure.get_supylabel() == "mean return"


@pytest.mark.parametrize(("count", "columns"), [(2, 2), (3, 3), (4, 2), (5, 3), (7, 3), (13, 4), (30, 6)])
def test_grid_leaves_no_empty_panel(runs, count, columns):
    (group,) = gather([runs / "Pong" / "r"]).groups
    tasks = [group.task._replace(game=f"Game{i:02}") for i in range(count)]
    groups = [dataclasses.replace(group, task=task) for task in tasks]
    found = draw(groups).axes
    assert [panel.get_title() for panel in found] == [task.game for task in tasks]
    assert found[0].get_gridspec().ncols == columns


def test_median_and_interquartile_mean_of_human_normalized_returns_over_frames_and_over_time(runs):
    figure = drawn(runs, style="aggregate")
    words = ["median over 2 games"] * 2 + ["interquartile mean over 2 games"] * 2
    assert [panel.get_title() for panel in figure.axes] == words
    x_labels = [panel.get_xlabel() for panel in figure.axes]
    assert x_labels == ["environment frames", "hours of training"] * 2
    entries, note = legend(figure)
    assert entries == ["R2D2", "V-trace (3 runs)"] and "stratified" in note
    groups = gather([runs / "Pong" / "r", runs / "Breakout" / "r"]).groups
    curves = [published_scores(*g.task).human_normalized(g.runs[0].curve.value) for g in groups]
    for panel, (r2d2, vtrace) in zip(figure.axes, [(1.5e6, 2.1e6), (2.5, 20 / 3.6)] * 2, strict=True):
        line = lines(panel)["R2D2"]  # Of two runs, median and interquartile mean are the mean.
        np.testing.assert_allclose(line.get_ydata()[[0, -1]], np.mean(curves, axis=0)[[0, -1]], rtol=1e-4)
        assert max(line.get_xdata()) == pytest.approx(r2d2)
        assert max(lines(panel)["V-trace (3 runs)"].get_xdata()) == pytest.approx(vtrace)
        assert len(panel.collections) == 1


def test_medians_in_print_are_drawn_for_all_57_games_only(runs):
    (group,) = gather([runs / "Pong" / "r"]).groups
    tasks = [group.task._replace(game=game) for game in published_games("atari")]
    groups = [dataclasses.replace(group, task=task) for task in tasks]
    for some, levels in ((groups, {0.0, 100.0, 1000.0, 1880.0}), (groups[1:], {0.0, 100.0})):
        median, _, mean, _ = draw(some, "aggregate").axes
        flat = [line for line in median.get_lines() if line.get_label().startswith("_")]
        assert {line.get_ydata()[0] for line in flat} == levels
        assert references(mean) == {"random": 0.0, "human": 100.0}


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (["catch"], {"style": "aggregate"}, "no published human and random scores for catch"),
        (["Pong", "Breakout/v1"], {"style": "aggregate"}, r"R2D2 has no run of Breakout.*cannot be compared"),
        (["Pong", "Breakout"], {"style": "best"}, "No method has runs of several combinations of settings"),
    ],
)
def test_what_a_style_cannot_draw_is_one_sentence(runs, tmp_path, names, options, words):
    write_run(tmp_path / "catch", environment="catch", game=None, periods=3)
    paths = [tmp_path / name if name == "catch" else runs / name for name in names]
    with pytest.raises(ValueError, match=words) as caught:
        drawn(*paths, **options)
    assert "\n" not in str(caught.value)


def test_sorted_is_from_the_best_to_the_worst(sweep):
    figure = drawn(sweep, style="sorted")
    (panel,) = figure.axes
    line = lines(panel)["V-trace"]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 13))
    groups = gather([sweep]).groups
    finals = [np.mean(run.curve.value[-1:]) for group in groups for run in group.runs]
    np.testing.assert_allclose(line.get_ydata(), sorted(finals, reverse=True))
    assert (panel.get_xlabel(), figure.get_supylabel()) == ("rank, best first", "final mean return")


def test_each_variant_has_a_sorted_line(two_sweeps):
    figure = drawn(two_sweeps / "nature", two_sweeps / "shallow", style="sorted")
    for panel in figure.axes:
        found = {name: len(line.get_xdata()) for name, line in lines(panel).items()}
        assert found == {"V-trace, torso nature": 2, "V-trace, torso shallow": 3}
    (panel, _) = drawn(two_sweeps / "nature", two_sweeps / "shallow", style="sorted", label="A,B").axes
    assert set(lines(panel)) == {"A", "B"}


def test_the_best_combination_of_each_variant_is_drawn_over_frames_and_over_time(two_sweeps):
    figure = drawn(*two_sweeps.iterdir(), style="best")
    x_labels = ["environment frames", "minutes of training"]
    assert [panel.get_title() for panel in figure.axes] == ["Breakout", "Breakout", "Pong", "Pong"]
    assert [panel.get_xlabel() for panel in figure.axes] == x_labels * 2
    names = ["V-trace, torso nature, best of 2 (2 runs)", "V-trace, torso shallow, best of 3 (2 runs)"]
    assert legend(figure)[0] == names
    for panel, ends in zip(figure.axes, ([2e6, 3e6], [30, 30], [2e6, 3e6], [30, 30]), strict=True):
        found = {name: line.get_xdata()[-1] for name, line in lines(panel).items()}
        assert found == pytest.approx(dict(zip(names, ends, strict=True)))
        assert len(seeds(panel)) == 4
    (left, right) = drawn(two_sweeps / "nature" / "Pong", style="best").axes
    assert lines(left).keys() == lines(right).keys() == {"V-trace, best of 2 (2 runs)"}


def test_lines_can_be_told_apart(runs):
    (group,) = gather([runs / "Pong" / "r"]).groups
    groups = [
        dataclasses.replace(group, task=group.task._replace(game=game), variant=Variant(f"{i:02}"))
        for game in ("Pong", "Qbert")
        for i in range(29)
    ]
    panel, _ = draw([group for group in groups if group.variant.method != "28"]).axes
    assert len({(line.get_color(), line.get_linestyle()) for line in lines(panel).values()}) == 28
    with pytest.raises(ValueError, match="29 kinds of line cannot be told apart"):
        draw(groups)
