"""Runs against each other, by the commands and in Python."""

import json

import numpy as np
import pytest

import seed_rl
from seed_rl.commands import evaluate, tournament
from seed_rl.commands.tournament import table
from seed_rl.flags.errors import UsageError
from tests.evaluation.untrained import write_run

TIC_TAC_TOE = {"environment": "pettingzoo", "game": "classic.tictactoe_v3"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of runs, by what they are of."""
    path = tmp_path_factory.mktemp("runs")
    return {
        "one": write_run(path / "one", **TIC_TAC_TOE),
        "lstm": write_run(path / "lstm", **TIC_TAC_TOE, agent="r2d2", seed=1, network={"lstm_size": 4}),
        "connect_four": write_run(path / "four", "pettingzoo", game="classic.connect_four_v3"),
        "player_id": write_run(path / "id", **TIC_TAC_TOE, player_id=True),
        "catch": write_run(path / "catch", "catch"),
        "nothing": path,
        "missing": path / "missing",
    }


def evaluated(*args):
    assert evaluate.main(["evaluate", *map(str, args)]) == 0


def test_a_run_plays_all_players(runs, capsys):
    evaluated(runs["one"], "--episodes=5", "--seed=3")
    result = json.loads((runs["one"] / "evaluations" / "ckpt-0.json").read_text())
    returns = np.array(result["player_returns"])
    assert returns.shape == (5, 2) and result["players"] == [[0, 1]] * 5
    assert (returns.sum(1) == 0).all() and result["mean_return"] == 0
    assert [result[f"mean_return_of_player_{p}"] for p in (0, 1)] == returns.mean(0).tolist()
    assert "against" in result and result["against"] is None and "wins" not in result
    assert f"mean return of player 0  {returns[:, 0].mean():.2f}\n" in capsys.readouterr().out


def test_a_run_plays_against_another_of_another_algorithm(runs, capsys):
    args = (runs["one"], f"--against={runs['lstm']}", "--episodes=7", "--num_envs=6")
    evaluated(*args)
    file = runs["one"] / "evaluations" / "ckpt-0_against_lstm_ckpt-0.json"
    result = json.loads(file.read_text())
    assert result["wins"] + result["draws"] + result["losses"] == result["episodes"] == 7
    assert result["score"] == (result["wins"] + result["draws"] / 2) / 7
    assert result["players"] == [[0], [1], [0], [1], [0], [1], [0]]
    assert result["returns"] == [
        r[p[0]] for r, p in zip(result["player_returns"], result["players"], strict=True)
    ]
    assert result["against"]["agent"] == "r2d2" and result["against"]["run"] == str(runs["lstm"])
    assert f"{result['wins']}, {result['draws']}, {result['losses']}" in capsys.readouterr().out
    with pytest.raises(UsageError, match="already exists; add --overwrite"):
        evaluate.main(["evaluate", *map(str, args)])
    evaluated(*args, "--overwrite")
    assert json.loads(file.read_text()) == result  # The same seed.


def test_every_pair_of_runs_and_checkpoints_plays(runs, tmp_path, capsys):
    output = tmp_path / "out" / "scores.json"
    names = [runs["one"], runs["lstm"] / "checkpoints" / "ckpt-0"]
    assert tournament.main(["tournament", *map(str, names), "--episodes=6", f"--output={output}"]) == 0
    result = json.loads(output.read_text())
    assert [one["agent"] for one in result["runs"]] == ["vtrace", "r2d2"]
    assert result["games"] == [[0, 6], [6, 0]]
    (_, share), (other, _) = result["scores"]
    assert share + other == 1 and [one["score"] for one in result["runs"]] == [share, other]
    shown = capsys.readouterr().out
    assert shown.count("ckpt-0") == 2 and str(output.name) in shown


def test_with_three_players_each_run_is_the_single_one_in_turn(tmp_path):
    game = {"environment": "pettingzoo", "game": "mpe2.simple_spread_v3"}
    names = [str(write_run(tmp_path / str(seed), **game, seed=seed)) for seed in range(2)]
    output = tmp_path / "scores.json"
    assert tournament.main(["tournament", *names, "--episodes=3", f"--output={output}"]) == 0
    result = json.loads(output.read_text())
    assert result["games"] == [[0, 3], [3, 0]]
    for name, other, share in ((*names, result["scores"][0][1]), (*names[::-1], result["scores"][1][0])):
        evaluated(name, f"--against={other}", "--episodes=3")
        (file,) = (tmp_path / name / "evaluations").iterdir()
        assert json.loads(file.read_text())["score"] == share


def test_a_pair_without_results_is_one_sentence(runs, capsys):
    argv = ["tournament", str(runs["one"]), str(runs["lstm"]), "--max_agent_steps=1"]
    assert tournament.main(argv) == 1
    assert "error: No episode ended within --max_agent_steps=1" in capsys.readouterr().err


# Arguments in which {NAME} is a run, and words of the sentence.
REFUSED = {
    "another game": ("evaluate {one} --against={connect_four}", "of pettingzoo classic.connect_four_v3 with"),
    "other spaces": ("evaluate {one} --against={player_id}", "with equal spaces"),
    "one player": ("evaluate {catch} --against={catch}", "name runs of the same game of several players"),
    "an opponent for one player": ("evaluate {one} --against={catch}", "the same game of several players"),
    "no run": ("evaluate {one} --against={nothing}", "so it is not a run directory"),
    "a video of a match": (
        "evaluate {one} --against={lstm} --overwrite --record=a.gif",
        "Games of several players have no pictures",
    ),
    "kept ones in a match": (
        "evaluate {one} --against={lstm} --checkpoint=kept",
        "--against is for one; leave them out",
    ),
    "a video of players": (
        "evaluate {one} --overwrite --record=a.gif",
        "Games of several players have no pictures",
    ),
    "a tournament of none": ("tournament", "at least two"),
    "a tournament of one": ("tournament {one}", "at least two"),
    "twice": ("tournament {one} {lstm} {one}/checkpoints/ckpt-0.index", "each once, not"),
    "different games": ("tournament {one} {connect_four}", "name runs of the same game"),
    "runs of one player": ("tournament {catch} {one}", "the same game of several players"),
    "no such run": ("tournament {one} {missing}", "is not a directory"),
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_meet_gets_one_sentence(runs, words, sentence):
    if "--record" in words:
        pytest.importorskip("imageio_ffmpeg")
    argv = words.format(**runs).split()
    with pytest.raises(UsageError) as error:
        {"evaluate": evaluate, "tournament": tournament}[argv[0]].main(argv)
    assert sentence in str(error.value) and str(error.value).endswith(".")
    assert str(error.value).isprintable()


def test_the_table_has_the_highest_score_first():
    runs = [
        {"checkpoint": f"/c/{n}", "score": s, "score_interval": (0.1, 1.0)}
        for n, s in (("a", 0.25), ("b", 0.75))
    ]
    lines = table({"runs": runs, "scores": [[None, 0.25], [0.75, None]]}).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["1", "/c/b", "75.0%", "10.0%", "to", "100.0%", "-", "75.0%"],
        ["2", "/c/a", "25.0%", "10.0%", "to", "100.0%", "25.0%", "-"],
    ]


def test_an_agent_of_a_players_run_plays_in_a_loop_of_ones_own(runs):
    from pettingzoo.classic import tictactoe_v3

    env, agents = tictactoe_v3.env(), {}
    env.reset(seed=1)
    for player in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        agent = agents[player] = agents.get(player) or seed_rl.load(runs["one"])
        env.step(None if terminated or truncated else agent.act(observation, reward))
    assert len(agents) == 2


@pytest.mark.slow
def test_python_gives_what_the_commands_write(runs):
    one, lstm = seed_rl.Run(runs["one"]), str(runs["lstm"])
    against = one.evaluate(6, against=lstm, seed=2)
    found = seed_rl.tournament([one, lstm], episodes=6, seed=2)
    assert found["scores"][0][1] == against["score"]
    for call, words in (
        (lambda: seed_rl.tournament([one]), "at least two"),
        (lambda: seed_rl.tournament([one, lstm], output="a.json"), "no argument 'output'"),
        (lambda: seed_rl.evaluate(one, against=runs["connect_four"]), "name runs of the same game"),
    ):
        with pytest.raises(seed_rl.UsageError, match=words):
            call()
