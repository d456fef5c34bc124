"""The code of a run is trusted where this user trained it, and as it was."""

import json
import os
import shutil
from pathlib import Path

import pytest

from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.runs import record
from seed_rl.runs.imports import check_imports


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A directory with a user's key and modules."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def trained(logdir, game):
    """A run with code of the user's own, in an environment or in its network."""
    if game == "network":
        suite, agent = ("catch", CatchConfig()), VTraceConfig.of(network="mine:Net")
    else:
        suite, agent = ("gym", GymConfig(game=game)), VTraceConfig()
    settings = {"learner": {}, "agent": agent.to_dict()}
    record.write(str(logdir), record.run_identity(*suite, "vtrace", agent), settings)
    return logdir


def is_trusted(logdir):
    try:
        check_imports(record.read(str(logdir)), trust_code=False)
    except ValueError as error:
        assert "--trust_code" in str(error)
        return False
    return True


def edit(logdir, **changes):
    content = json.loads((logdir / "run.json").read_text())
    (logdir / "run.json").write_text(json.dumps(content | changes))


def in_another_game(logdir):
    content = json.loads((logdir / "run.json").read_text())
    content["identity"]["environment"] = {"name": "gym", "settings": {"game": "other:Id-v0"}}
    (logdir / "run.json").write_text(json.dumps(content))


def of_another_module(logdir):
    (logdir.parent / "mine.py").rename(logdir.parent / "hidden.py")
    (logdir.parent / "mine").mkdir()
    (logdir.parent / "mine" / "__init__.py").touch()


def damage_key(logdir):
    (logdir.parent / "state/seed_rl/key").write_bytes(b"")


NOT_TRUSTED = {
    "no signature": lambda logdir: edit(logdir, signature=None),
    "a number": lambda logdir: edit(logdir, signature=5),
    "another one": lambda logdir: edit(logdir, signature="é" * 64),
    "another key": lambda logdir: (logdir.parent / "state/seed_rl/key").unlink(),
    "an empty key": damage_key,
    "another game": in_another_game,
}


@pytest.mark.parametrize("game", ["mine:Id-v0", "network"])
@pytest.mark.parametrize("change", [*NOT_TRUSTED.values(), of_another_module], ids=[*NOT_TRUSTED, "module"])
def test_code_is_trusted_where_this_user_trained_it_and_as_it_was(home, game, change):
    logdir = trained(home / "run", game)
    assert is_trusted(logdir)
    change(logdir)
    assert not is_trusted(logdir)


@pytest.mark.parametrize("change", NOT_TRUSTED.values(), ids=NOT_TRUSTED)
def test_a_function_is_trusted_as_long_as_its_file_is_the_same(home, change):
    file = home / "run" / "environment_1.pickle"
    file.parent.mkdir()
    file.write_bytes(b"function")
    logdir = trained(home / "run", f"pickle:{file}")
    assert is_trusted(logdir)
    file.write_bytes(b"another")
    assert not is_trusted(logdir)
    file.write_bytes(b"function")
    assert is_trusted(logdir)
    change(logdir)
    assert not is_trusted(logdir)


def test_a_copy_and_a_moved_run_are_not_trusted_but_a_link_to_the_run_is(home):
    logdir = trained(home / "run", "mine:Id-v0")
    (home / "link").symlink_to(logdir)
    assert is_trusted(home / "link")
    assert not is_trusted(shutil.copytree(logdir, home / "copy"))
    assert not is_trusted(logdir.rename(home / "moved"))


def test_only_the_user_can_read_the_key(home):
    key = home / "state" / "seed_rl" / "key"
    trained(home / "run", "network")
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_run_that_names_no_code_needs_no_key(home):
    trained(home / "run", "CartPole-v1")
    assert not (home / "state").exists()


def test_without_a_home_the_flag_is_needed(home, monkeypatch):
    def fail():
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", fail)
    assert not is_trusted(trained(home / "run", "mine:Id-v0"))
    assert os.listdir(home / "run") == ["run.json"]
