"""A record alone has nothing imported that its reader has not installed."""

import os
import sys

import pytest

from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.runs import record
from seed_rl.runs.imports import check_imports

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


@pytest.fixture
def logdir(tmp_path, monkeypatch):
    (tmp_path / "sent.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "numpy:sent.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))  # So nothing is signed.
    return str(tmp_path / "run")


def write(logdir, game=None, network=None):
    environment, agent = ("gym", GymConfig(game=game)) if game else ("catch", CatchConfig()), VTraceConfig()
    if network:
        agent = VTraceConfig.of(network=network)
    settings = {"learner": {}, "agent": agent.to_dict()}
    record.write(logdir, record.run_identity(*environment, "vtrace", agent), settings)
    return record.read(logdir)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flag", ["game", "network"])
def test_only_installed_packages_are_imported_without_a_word(logdir, monkeypatch, flag, name):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())  # The words "frozen" and "built-in" are no paths in it.
    run = write(logdir, **{flag: name})
    check_imports(run, trust_code=True)
    if NAMES[name]:
        check_imports(run, trust_code=False)
    else:
        with pytest.raises(ValueError, match="--trust_code") as caught:
            check_imports(run, trust_code=False)
        assert f"--{flag}={name}" in str(caught.value)
    record.check(logdir, run.identity)
    assert "sent" not in sys.modules


def test_pythonpath_is_the_word_of_the_user(logdir, tmp_path, monkeypatch):
    run = write(logdir, game="sent:Id-v0")
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{tmp_path / 'other'}")
    with pytest.raises(ValueError, match="--trust_code"):
        check_imports(run, trust_code=False)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'other'}{os.pathsep}{tmp_path}")
    check_imports(run, trust_code=False)
    (tmp_path / "sooner").mkdir()
    (tmp_path / "sooner" / "sent.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path / "sooner")
    with pytest.raises(ValueError, match="--trust_code"):
        check_imports(run, trust_code=False)
    assert "sent" not in sys.modules
