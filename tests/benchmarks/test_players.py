"""Players that follow rules, and the benchmark of games for several players."""

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="no TensorFlow")
pytest.importorskip("pettingzoo", reason="no PettingZoo")

from benchmarks import players
from benchmarks.scripted_players import LookAhead, Perfect, four, value
from seed_rl.flags.errors import UsageError
from seed_rl.types import EnvOutput


def board(*rows: str) -> np.ndarray:
    """Planes of the player to move (x) and the other one (o), `[rows, columns, 2]`."""
    return np.array([[[char == "x", char == "o"] for char in row] for row in rows], np.int8)


def move(player: Any, planes: np.ndarray) -> int:
    """The player's move in slot 1 of 2, where slot 0 is empty."""
    observation = {"observation": np.stack([np.zeros_like(planes), planes])}
    no = np.zeros(2, bool)
    (found,) = player(EnvOutput(np.zeros(2, np.float32), no, no, observation), np.array([1]))
    return int(found)


@pytest.mark.parametrize(
    ("squares", "expected"),
    [
        ("         ", 0),
        ("xx oo    ", 1),  # Three in a row.
        ("oo  x    ", 0),  # There is one threat, which can be prevented.
        ("oo  o  x ", -1),  # There are two.
        ("ooo xx   ", -1),
    ],
)
def test_the_value_of_tic_tac_toe(squares, expected):
    assert value(tuple({"x": 1, "o": -1, " ": 0}[char] for char in squares)) == expected


@pytest.mark.parametrize(
    ("rows", "moves"),
    [
        (("xx ", "oo ", "   "), {2}),  # Wins, rather than preventing that the other does.
        (("oo ", " x ", "   "), {2}),  # Prevents it.
        (("o  ", " x ", "  o"), {1, 3, 5, 7}),  # Not a corner, which would allow two threats.
        (("o  ", "   ", "   "), {4}),  # The only answer to a corner.
    ],
)
def test_the_perfect_player_takes_the_best_moves(rows, moves):
    assert {move(Perfect(seed), board(*rows)) for seed in range(30)} == moves


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (("x      ", "x     o", "x     o"), {0}),  # Wins, rather than preventing that the other does.
        (("       ", "      o", "xx    o", "xxo   o"), {6}),  # Prevents it.
        (("       ", "ooo x  "), {3}),
        (("   x   ", "  xo   ", " xoo   ", " ooxo x"), {0}),  # Diagonally.
        (("oxoxox ", "xoxoxo ", "oxoxox ", "oxoxox ", "xoxoxo ", "xoxoxo "), {6}),  # The only column left.
    ],
)
def test_look_ahead_wins_and_prevents(rows, columns):
    planes = board(*[" " * 7] * (6 - len(rows)), *rows)
    assert {move(LookAhead(seed), planes) for seed in range(10)} == columns


def test_look_ahead_otherwise_plays_any_column():
    assert {move(LookAhead(seed), board(*[" " * 7] * 6)) for seed in range(60)} == set(range(7))


@pytest.mark.parametrize(
    ("squares", "expected"),
    [
        ([(5, 3), (5, 4), (5, 5), (5, 6)], True),
        ([(0, 0), (1, 0), (2, 0), (3, 0)], True),
        ([(2, 3), (3, 4), (4, 5), (5, 6)], True),
        ([(0, 6), (1, 5), (2, 4), (3, 3)], True),
        ([(0, 4), (0, 5), (0, 6), (1, 0)], False),  # Not around the edge.
        ([(0, 0), (0, 1), (0, 3), (0, 4)], False),
    ],
)
def test_four_in_a_row(squares, expected):
    discs = np.zeros((6, 7), bool)
    discs[tuple(zip(*squares, strict=True))] = True
    assert four(discs) == expected


def test_distance_to_the_even_mixture():
    mixtures = np.array([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]])
    assert players._distance(mixtures) == pytest.approx([2 / 3, 0, 1 / 3])


def test_an_unknown_game_is_named(tmp_path):
    with pytest.raises(UsageError, match="'chess' is not a game of this benchmark; choose from tictactoe"):
        players.main(["players", "chess", f"--logdir={tmp_path}"])


@pytest.mark.slow
def test_runs_are_trained_once_and_told(tmp_path, monkeypatch, capsys):
    """Each kind of game, as small as it can be; then once more, which trains nothing."""
    monkeypatch.setattr(players, "RUNS", {name: rows[-1:] for name, rows in players.RUNS.items()})
    args = ["players", "tictactoe", "spread", "roshambo", "--games=2", f"--logdir={tmp_path}"]
    small = ["--env_batch_size=12", "--inference_batch_size=12", "--unroll_length=4", "--batch_size=4"]
    small += ["--num_env_groups=1", "--total_environment_frames=1200", f"{players._KEEP}400"]
    assert players.main([*args, *small]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert set(figures) == {"tictactoe", "spread", "roshambo"}
    assert sum(figures["tictactoe"]["ppo LSTM"]["drawn"][name] for name in ("wins", "draws", "losses")) == 2
    assert figures["spread"]["random"] < 0
    assert 0 <= figures["roshambo"]["past"]["policy"] <= 2 / 3
    plots = [tmp_path / name for name in ("players_learning.png", "roshambo.png")]
    assert all(plot.stat().st_size > 5000 for plot in plots)
    before = {path: path.stat().st_mtime for path in tmp_path.glob("*/metrics.jsonl")}
    assert players.main([*args, *small]) == 0
    assert len(before) == 3
    assert {path: path.stat().st_mtime for path in before} == before
