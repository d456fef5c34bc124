"""Code that only a record names is imported where this user trained the run, as it was, or is installed."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.runs import record
from seed_rl.runs.trust import check_imports

NAMES = {
    "CartPole-v1": True,
    "gymnasium:CartPole-v1": True,
    "gymnasium.envs:CartPole-v1": True,
    "seed_rl.networks:Any": True,
    ":CartPole-v1": True,
    "sent:Id-v0": False,
    "sent.module:Id-v0": False,
    "os:system": False,
    "antigravity:Id-v0": False,
    "numpy:sent:Id-v0": False,
    "../sent:Id-v0": False,
    " numpy:Id-v0": False,
}
SENT = "raise SystemExit('imported')\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A directory with a user's key and modules."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in ("sent", "mine", "numpy:sent"):
        (tmp_path / f"{module}.py").write_text(SENT)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    assert not {"sent", "mine"} & set(sys.modules)


@pytest.fixture
def unsigned(home, monkeypatch):
    """The same without a place for a key, so nothing is signed."""
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    return home


def trained(logdir, game=None, network=None):
    """The directory of a run with code of the user's own, in an environment or in its network."""
    suite = ("gym", GymConfig(game=game)) if game else ("catch", CatchConfig())
    agent = VTraceConfig.of(network=network) if network else VTraceConfig()
    settings = {"learner": {}, "agent": agent.to_dict()}
    record.write(str(logdir), record.run_identity(*suite, "vtrace", agent), settings)
    return logdir


def check(logdir, trust_code=False):
    run = record.read(str(logdir))
    check_imports(run.logdir, run.identity, run.agent_settings, trust_code)


def is_trusted(logdir):
    check(logdir, trust_code=True)
    try:
        check(logdir)
    except ValueError as error:
        assert "--trust_code" in str(error)
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flag", ["game", "network"])
def test_only_installed_packages_are_imported_without_a_word(unsigned, monkeypatch, flag, name):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())  # The words "frozen" and "built-in" are no paths in it.
    logdir = trained(unsigned / "run", **{flag: name})
    assert is_trusted(logdir) == NAMES[name]
    if not NAMES[name]:
        with pytest.raises(ValueError, match=f"--{flag}={name}"):
            check(logdir)
    record.check(str(logdir), record.read(str(logdir)).identity)


def test_pythonpath_is_the_word_of_the_user(unsigned, monkeypatch):
    logdir, sooner = trained(unsigned / "run", "sent:Id-v0"), unsigned / "sooner"
    other = f"{unsigned / 'other'}{os.pathsep}"
    for path, trusted in ((other, False), (f"{other}{unsigned}", True)):
        monkeypatch.setenv("PYTHONPATH", path)
        assert is_trusted(logdir) == trusted
    sooner.mkdir()
    (sooner / "sent.py").write_text(SENT)
    monkeypatch.syspath_prepend(sooner)
    assert not is_trusted(logdir)


def edit(logdir, **changes):
    content = json.loads((logdir / "run.json").read_text())
    (logdir / "run.json").write_text(json.dumps(content | changes))


def in_another_game(logdir):
    identity = json.loads((logdir / "run.json").read_text())["identity"]
    edit(logdir, identity=identity | {"environment": {"name": "gym", "settings": {"game": "other:Id-v0"}}})


def of_another_module(logdir):
    (logdir.parent / "mine.py").rename(logdir.parent / "hidden.py")
    (logdir.parent / "mine").mkdir()
    (logdir.parent / "mine" / "__init__.py").touch()


NOT_TRUSTED = {
    "no signature": lambda logdir: edit(logdir, signature=None),
    "a number": lambda logdir: edit(logdir, signature=5),
    "another one": lambda logdir: edit(logdir, signature="é" * 64),
    "another key": lambda logdir: (logdir.parent / "state/seed_rl/key").unlink(),
    "an empty key": lambda logdir: (logdir.parent / "state/seed_rl/key").write_bytes(b""),
    "another game": in_another_game,
    "another module": of_another_module,
}
OF_FILES = [change for name, change in NOT_TRUSTED.items() if name != "another module"]
OF_FILES.append(lambda logdir: (logdir / "environment_1.pickle").write_bytes(b"another"))


@pytest.mark.parametrize("code", [{"game": "mine:Id-v0"}, {"network": "mine:Net"}], ids=str)
@pytest.mark.parametrize("change", NOT_TRUSTED.values(), ids=NOT_TRUSTED)
def test_code_is_trusted_where_this_user_trained_it_and_as_it_was(home, code, change):
    logdir = trained(home / "run", **code)
    assert (home / "state/seed_rl/key").stat().st_mode & 0o777 == 0o600
    assert is_trusted(logdir)
    change(logdir)
    assert not is_trusted(logdir)


@pytest.mark.parametrize("change", OF_FILES)
def test_a_function_is_trusted_as_long_as_its_file_is_the_same(home, change):
    file = home / "run" / "environment_1.pickle"
    file.parent.mkdir()
    file.write_bytes(b"function")
    logdir = trained(home / "run", f"pickle:{file}")
    assert is_trusted(logdir)
    change(logdir)
    assert not is_trusted(logdir)


def test_a_copy_and_a_moved_run_are_not_trusted_but_a_link_to_the_run_is(home):
    logdir = trained(home / "run", "mine:Id-v0")
    (home / "link").symlink_to(logdir)
    assert is_trusted(home / "link")
    assert not is_trusted(shutil.copytree(logdir, home / "copy"))
    assert not is_trusted(logdir.rename(home / "moved"))


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
