import os
import sys

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.commands import list as list_command
from seed_rl.environments import registry as environments


@pytest.fixture
def table(capsys):
    def make(*args):
        assert list_command.main(["seed_rl list", *args]) == 0
        header, *lines = capsys.readouterr().out.splitlines()
        rows = {line.split()[0]: line.split()[1:] for line in lines[: len(environments.names())]}
        cells = {name: dict(zip(header.split(), row, strict=True)) for name, row in rows.items()}
        return cells, lines[len(rows) :]

    return make


def test_every_pair_has_a_cell(table):
    cells, _ = table()
    assert list(cells) == environments.names()
    assert all(set(row) == set(algorithms.choices()) for row in cells.values())
    assert cells["catch"]["vtrace"] == "preset"
    assert cells["recall"]["dqn"] == cells["catch"]["rainbow"] == "computed"


def test_agents_that_cannot_act_are_named(table):
    cells, notes = table("--game=Pendulum-v1")
    assert cells["gym"]["dqn"] == cells["gym"]["rainbow"] == "no"
    assert cells["gym"]["sac"] == "preset"
    assert "gym: its actions are continuous, and dqn, pqn, r2d2 need one discrete action." in notes


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A directory of modules that come before all others."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def test_what_is_missing_comes_with_what_installs_it(table, modules):
    (modules / "minatar.py").write_text(
        "raise ModuleNotFoundError('No module named minatar', name='minatar')"
    )
    cells, notes = table()
    assert set(cells["minatar"].values()) == {"missing"}
    note = next(line for line in notes if line.startswith("minatar: "))
    assert f"{sys.executable} -m pip install" in note and "[minatar]'" in note


FLOODED = """
import gymnasium
class Flooded(gymnasium.Env):
    def __init__(self):
        raise OSError("The cellar\\nis flooded.")
gymnasium.register("Flooded-v0", Flooded)
"""


def test_an_environment_that_fails_is_only_its_own_rows_problem(table, modules):
    (modules / "flooded.py").write_text(FLOODED)
    cells, notes = table("--game=flooded:Flooded-v0")
    assert set(cells["gym"].values()) == {"missing"} and cells["recall"]["ppo"] == "preset"
    assert any(line.startswith("gym: ") and r"The cellar\nis flooded." in line for line in notes)
