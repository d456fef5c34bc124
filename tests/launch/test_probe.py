"""Environments that do whatever they like to their process; the one that probes them stays as it was."""

import contextlib
import os
import signal
import threading

import cloudpickle
import pytest

from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.games import HasPlayersError
from seed_rl.environments.making import Probed, ProbeError
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.launch.probe import Probe, found
from seed_rl.launch.probe import probe as probe_process

MODULE = """
import atexit, ctypes, gymnasium, os, signal, subprocess, sys, threading, time

class Rude(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self):
        {code}
    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {{}}

gymnasium.register("Rude-v0", Rude)
"""

HARMLESS = {
    "ignores signals": "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 10, 12, 15)]",
    "exits at signals": "[signal.signal(n, lambda *_: os._exit(0)) for n in (1, 2, 10, 12, 15)]",
    "changes the directory": "os.chdir('/')",
    "leaves a thread": "threading.Thread(target=time.sleep, args=(3600,)).start()",
    "leaves a process": "subprocess.Popen(['sleep', '3600'], start_new_session=True)",
    "prints": 'print(\'[["vectors", "discrete", false, 1, 4]]\', flush=True)',
    "prints at exit": "atexit.register(print, 'Bye.')",
    "closes its output": "os.close(1); os.close(2)",
    "has no output": "sys.stdout = sys.stderr = None",
    "hangs at exit": "atexit.register(time.sleep, 3600)",
    "fails at exit": "atexit.register(os._exit, 3)",
    "stops the alarm": "signal.alarm(0); signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "unsets variables": "os.environ.clear()",
}
# (code, what the sentence has).
HARMFUL = {
    "ends well": ("os._exit(0)", "exit code 0"),
    "exits": ("sys.exit(0)", "SystemExit: 0"),
    "ends badly": ("print('No display.', flush=True); os._exit(3)", "exit code 3; No display."),
    "aborts": ("os.abort()", "exit code -6"),
    "ends itself": ("os.kill(os.getpid(), 9)", "exit code -9"),
    "raises": ("raise KeyError('missing')", "KeyError: 'missing'"),
    "raises anything": ("raise BaseException('why')", "BaseException: why"),
    "hangs": ("time.sleep(3600)", "within 1 s"),
    "hangs in native code": ("ctypes.PyDLL(None).sleep(3600)", "within 1 s"),
}


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """Answers for an environment with this code in its constructor, which leave this process as it was."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("seed_rl.launch.probe._SPARE_SECS", 20.0)

    def ask(code, **tolerance):
        (tmp_path / "rude.py").write_text(MODULE.format(code=code))
        config = GymConfig(game="rude:Rude-v0")
        threads, before = set(threading.enumerate()), state()
        with contextlib.closing(Probe([("gym", config.to_dict())], FailureConfig(**tolerance))) as process:
            answers = process.answers()
        # Threads of earlier tests may have ended.
        assert state() == before and set(threading.enumerate()) <= threads
        return answers

    return ask


def state():
    handlers = [signal.getsignal(number) for number in (1, 2, 10, 12, 14, 15)]
    return handlers, os.getcwd(), dict(os.environ)


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_environments_that_can_be_made_are_described_whatever_else_they_do(probe, code, capfd):
    (answer,) = probe(code)
    assert found(answer).spec.observation.shape == (3,)
    assert (answer.name, answer.is_vector) == ("Rude-v0", False)
    assert answer.spaces().action_space.n == 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("code", "words"), HARMFUL.values(), ids=HARMFUL)
def test_those_that_cannot_get_a_sentence(probe, code, words, capfd):
    tolerance = {"env_step_timeout_secs": 1.0} if "3600" in code else {}
    (answer,) = probe(code, max_environment_failures=0, **tolerance)
    assert isinstance(answer, ProbeError) and words in str(answer) and "\n" not in str(answer)
    assert capfd.readouterr() == ("", "")


def test_one_that_fails_leaves_the_answers_for_others_and_its_traceback(probe, tmp_path):
    probe("raise KeyError('missing')")
    requests = [("gym", {"game": "rude:Rude-v0"}), ("gym", {})]
    with contextlib.closing(Probe(requests)) as process:
        failed, made = process.answers()
    assert "rude.py" in failed.__notes__[0] and "KeyError: 'missing'" in failed.__notes__[0]
    assert isinstance(made, Probed)


def test_a_function_for_a_single_player_that_makes_a_game_is_recognized(tmp_path):
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    (tmp_path / "file").write_bytes(cloudpickle.dumps(rps.parallel_env))
    game = {"game": f"pickle:{tmp_path}/file"}
    single, players = probe_process([("gym", game), ("pettingzoo", game)])
    with pytest.raises(HasPlayersError):
        found(single)
    assert found(players).spec.num_players == 2


def test_a_request_to_stop_ends_the_wait(probe, tmp_path):
    (tmp_path / "rude.py").write_text(MODULE.format(code="time.sleep(3600)"))
    with contextlib.closing(Probe([("gym", {"game": "rude:Rude-v0"})])) as process:
        (answer,) = process.answers(lambda: True)
    with pytest.raises(ProbeError, match="asked to stop"):
        found(answer)
