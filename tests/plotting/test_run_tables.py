"""Tables 1, 2 and 10 from runs, against figures by hand."""

import dataclasses
import json

import numpy as np
import pytest

from seed_rl.plotting.groups import gather
from seed_rl.plotting.run_tables import atari_table, search_table, speed_table
from seed_rl.runs import record
from seed_rl.runs.scores import published_games, published_scores
from tests.plotting.synthetic import write_run


def picked(table, *names):
    """Some columns of each row of runs."""
    return [tuple(row[name] for name in names) for row in table.rows if row.keys() == table.rows[0].keys()]


# Each run is (suite, game, environments, batch size, environment frames in 100 seconds).
@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # The first run is the one that others are compared with, also if it is not the first by name.
        (
            [("atari", "Pong", 256, 64, 1e6), ("atari", "Pong", 64, 32, 3e6)],
            [("atari", 256, 64, 1e4, None), ("atari", 64, 32, 3e4, 3.0)],
        ),
        # Runs of all games of a suite are one row.
        ([("atari", "Pong", 8, 4, 1e6), ("atari", "Qbert", 8, 4, 3e6)], [("atari", 8, 4, 2e4, None)]),
        # Only the number of environments differs.
        (
            [("atari", "Pong", 8, 4, 1e6), ("atari", "Pong", 16, 4, 15e5)],
            [("atari", 8, 4, 1e4, None), ("atari", 16, 4, 15e3, 1.5)],
        ),
        # So does the batch size, and between games only.
        (
            [("atari", "Pong", 8, 4, 1e6), ("atari", "Qbert", 8, 2, 5e5)],
            [("atari", 8, 4, 1e4, None), ("atari", 8, 2, 5e3, 0.5)],
        ),
        # Suites are compared with themselves.
        (
            [("catch", None, 8, 4, 1e6), ("atari", "Pong", 8, 4, 2e6)],
            [("atari", 8, 4, 2e4, None), ("catch", 8, 4, 1e4, None)],
        ),
    ],
)
def test_speed(tmp_path, runs, expected):
    paths = []
    for number, (suite, game, num_envs, batch_size, frames) in enumerate(runs):
        where = {"path": tmp_path / f"{9 - number}", "game": game, "environment": suite}
        learner = {"num_envs": num_envs, "batch_size": batch_size}
        paths.append(write_run(**where, frames=frames, seconds=100, learner=learner))
    table = speed_table(gather(paths, "updates").groups)
    names = ("suite", "num_envs", "batch_size", "frames_per_second", "ratio")
    rows = [(*row[:3], round(row[3], -2), row[4] and round(row[4], 2)) for row in picked(table, *names)]
    assert rows == expected
    assert [rate for (rate,) in picked(table, "updates_per_second")] == pytest.approx(
        [10] * len(rows), rel=1e-2
    )


def test_seconds_weigh_in_speeds_and_not_runs(tmp_path):
    for game, seconds in (("Pong", 100), ("Qbert", 300)):
        write_run(tmp_path / game, game, frames=1e6, seconds=seconds)
    ((speed,),) = picked(speed_table(gather([tmp_path], "updates").groups), "frames_per_second")
    assert speed == pytest.approx(5e3, rel=1e-2)


def test_speed_is_that_after_the_first_tenth(tmp_path):
    """Frames come ten times as fast from the second period on."""
    run = write_run(tmp_path / "run", metrics=False)
    periods = [(10, 10, 0), *((10 + 100 * i, 10 + 10 * i, 5 * i) for i in range(1, 10))]
    lines = [f'{{"env_frames": {f}, "seconds": {s}, "updates": {u}}}\n' for f, s, u in periods]
    (run / "metrics.jsonl").write_text("".join(lines))
    row, *_ = speed_table(gather([run], "updates").groups).rows
    assert (row["frames_per_second"], row["updates_per_second"]) == pytest.approx((10.0, 0.5))
    (run / "metrics.jsonl").write_text(lines[-1])
    row, *_ = speed_table(gather([run], "updates").groups).rows
    assert row["frames_per_second"] == pytest.approx(9.1)


def test_the_papers_speeds_follow_those_of_a_suites_runs(tmp_path):
    for suite, game in (("football", None), ("catch", None), ("atari", "Pong")):
        write_run(tmp_path / suite, game, environment=suite)
    rows = speed_table(gather([tmp_path], "updates").groups).rows
    assert [row["suite"] for row in rows] == ["atari"] * 5 + ["catch"] + ["football"] * 7
    names = "agent", "num_envs", "training_devices", "frames_per_second", "ratio", "runs"
    expected = ("SEED, Large model", 5040, "20 of 32 TPU v3 core", 114_000, 3.9, None)
    assert tuple(rows[-1].get(name) for name in names) == expected


def test_the_papers_scores_of_footballs_hard_match_follow_its_searches(tmp_path):
    for game in ("11_vs_11_hard_stochastic", "academy_empty_goal"):
        for rate in (1e-4, 2e-4):
            write_run(
                tmp_path / f"{game}{rate}", game, environment="football", learner={"learning_rate": rate}
            )
    rows = search_table(gather([tmp_path]).groups).rows
    assert [row["task"] for row in rows] == ["11_vs_11_hard_stochastic"] * 13 + ["academy_empty_goal"]
    assert (rows[12]["maximum"], rows[12]["combinations"]) == (7.66, None)
    assert (rows[1]["median"], rows[1]["maximum"], rows[1]["combinations"]) == (-0.74, 0.06, 40)


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """Four learning rates with two seeds each, of which one has a single seed."""
    path = tmp_path_factory.mktemp("search")
    for i, seeds in enumerate(((1, 2), (1, 2), (1, 2), (1,))):
        for seed in seeds:
            rate = {"learning_rate": 1e-4 * (i + 1)}
            write_run(path / f"{i}_{seed}", seed=seed, learner=rate, highest=10.0 * (i + 1), periods=20)
    return path


def test_median_maximum_and_minimum_are_over_combinations_of_the_mean_over_seeds(search):
    groups = gather([search]).groups
    finals = [np.mean([run.curve.value[-1] for run in group.runs]) for group in groups]
    (row,) = search_table(groups).rows
    assert (row["task"], row["agent"], row["combinations"], row["seeds"]) == ("Pong", "V-trace", 4, "1 to 2")
    found = row["median"], row["maximum"], row["minimum"]
    assert found == pytest.approx((np.mean(finals[1:3]), finals[3], finals[0]))
    assert (row["best"], row["worst"]) == ("learning rate 0.0004", "learning rate 0.0001")


def test_variants_and_games_have_rows_of_their_own(two_sweeps):
    table = search_table(gather([two_sweeps / "nature", two_sweeps / "shallow"]).groups)
    names = ("V-trace, torso nature", 2), ("V-trace, torso shallow", 3)
    assert picked(table, "task", "agent", "combinations") == [
        (game, *name) for game in ("Breakout", "Pong") for name in names
    ]


@pytest.fixture(scope="module")
def atari(tmp_path_factory):
    """R2D2 on Pong and Ms. Pacman, PPO on Pong and on two games without published scores."""
    path = tmp_path_factory.mktemp("atari")
    for agent, games in (("r2d2", ("Pong", "ms_pacman")), ("ppo", ("Pong", "Tetris"))):
        for game in games:
            write_run(path / agent / game, game, agent, periods=5)
    write_run(path / "gym_pong", "Pong", "ppo", environment="gym", periods=5)
    return path


def by_game(groups):
    """The rows of Table 10 of these groups, by game or statistic."""
    return {row["game"]: row for row in atari_table(groups).rows}


def normalized(game, value):
    return pytest.approx(published_scores("atari", game).human_normalized(value))


def test_all_games_in_print_and_those_of_runs_are_listed(atari):
    groups = gather([atari / "r2d2", atari / "ppo"]).groups
    rows, games = by_game(groups), list(published_games("atari"))
    assert list(rows)[:58] == [*games, "Tetris"]
    assert {game for game in games if rows[game]["R2D2"] is not None} == {"Pong", "MsPacman"}
    pong, tetris = rows["Pong"], rows["Tetris"]
    published = [pong[name] for name in ("random", "human", "R2D2, published", "SEED, published")]
    assert published == [-20.7, 14.6, 21.0, 21.0]
    assert pong["PPO, % of human"] == normalized("Pong", pong["PPO"])
    assert tetris["PPO"] is not None and tetris["PPO, % of human"] is None and tetris["random"] is None
    assert "R2D2, published" in atari_table(groups).as_markdown().splitlines()[0]


def test_medians_and_means_are_over_all_games_and_over_those_that_all_played(atari):
    """The median over all 57 is 1846% of a human's by Table 10's scores and the random ones in use here."""
    rows = by_game(
        gather([atari / "r2d2", atari / "ppo" / "Tetris"]).groups
    )  # PPO has no run of these games.
    whole, part = rows["median of all 57 games, % of human"], rows["median of 2 games, % of human"]
    assert whole["SEED, published, % of human"] == pytest.approx(1846, abs=1)
    assert whole["R2D2, % of human"] is None
    mine = [rows[game]["R2D2, % of human"] for game in ("Pong", "MsPacman")]
    assert part["R2D2, % of human"] == pytest.approx(np.median(mine))
    assert rows["mean of 2 games, % of human"]["R2D2, % of human"] == pytest.approx(np.mean(mine))
    theirs = [rows[game]["R2D2, published, % of human"] for game in ("Pong", "MsPacman")]
    assert theirs == [normalized("Pong", 21.0), normalized("MsPacman", 42281.7)]
    assert part["R2D2, published, % of human"] == pytest.approx(np.median(theirs))


def test_with_runs_of_all_games_there_is_one_median_and_so_if_nobody_played_the_same_game(atari):
    (group,) = gather([atari / "r2d2" / "Pong"]).groups
    tasks = [group.task._replace(game=game) for game in published_games("atari")]
    rows = by_game([dataclasses.replace(group, task=task) for task in tasks])
    assert [name.split()[0] for name in list(rows)[57:]] == ["median", "mean"]
    values = [published_scores("atari", task.game).human_normalized(group.final) for task in tasks]
    assert rows["median of all 57 games, % of human"]["R2D2, % of human"] == pytest.approx(np.median(values))
    rows = by_game(gather([atari / "r2d2" / "ms_pacman", atari / "ppo" / "Pong"]).groups)
    assert [name.split()[0] for name in list(rows)[57:]] == ["median", "mean"]


# Each evaluation is its frames, its returns and whether the settings of the environment are the run's.
@pytest.mark.parametrize(
    ("evaluations", "expected"),
    [
        ([(1000, (1.0, 3.0), True)], 2.0),
        ([(1000, (1.0, 3.0), True), (5000, (7.0, 7.0), True), (2000, (3.0, 3.0), True)], 7.0),
        ([(1000, (1.0, 3.0), False)], None),
        ([(1000, (5.0,), True)], None),
        (["{"], None),
        (["[]"], None),
        (['{"env_frames": 3}'], None),
    ],
)
def test_the_last_evaluation_counts_if_there_is_one(tmp_path, evaluations, expected):
    run = write_run(tmp_path / "run", "Pong", periods=5)
    (run / "evaluations").mkdir()
    settings = record.read(str(run)).environment_settings
    for number, evaluation in enumerate(evaluations):
        if isinstance(evaluation, str):
            text = evaluation
        else:
            frames, returns, is_own = evaluation
            environment = {"name": "atari", "settings": settings if is_own else settings | {"game": "Qbert"}}
            text = json.dumps({"env_frames": frames, "returns": returns, "environment": environment})
        (run / "evaluations" / f"ckpt-{number}.json").write_text(text)
    groups = gather([run]).groups
    value = by_game(groups)["Pong"]["V-trace"]
    assert value == (groups[0].final if expected is None else expected)


def test_a_game_of_another_suite_is_not_taken_for_atari(atari):
    rows = atari_table(gather([atari / "gym_pong"]).groups).rows
    assert [(row["game"], row["human"]) for row in rows] == [("Pong", None)]
    rows = atari_table(gather([atari / "gym_pong", atari / "ppo" / "Tetris"]).groups).rows
    assert len(rows) == 57 + 2 + 2
    assert [row["PPO"] is None for row in rows if row["game"] == "Pong"] == [True, False]


def test_a_name_of_another_column_is_refused(atari):
    with pytest.raises(ValueError, match="Table 10 has another column named human; choose other names"):
        atari_table(gather([atari / "ppo" / "Pong"]).groups, label="human")
