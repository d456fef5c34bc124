"""The functions of the Python interface leave the process that calls them as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A script that prints what each call has changed in its process: call, thing, before, after.
SCRIPT = """
import faulthandler, gc, json, locale, logging, multiprocessing, os, random, signal, sys, threading, warnings
import gymnasium
import numpy as np
import seed_rl

VARIABLES = list(os.environ)  # TensorFlow adds some of its own.
LOGGERS = [None, *logging.root.manager.loggerDict]


class Own(gymnasium.Wrapper):
    calls = 0

    def reset(self, **kwargs):
        self.calls += 1
        return super().reset(**kwargs)

    def close(self):
        self.calls += 1


own = Own(gymnasium.make("CartPole-v1"))
random.seed(5), np.random.seed(5), warnings.simplefilter("always", DeprecationWarning)
signal.signal(signal.SIGALRM, lambda *_: None), signal.signal(signal.SIGUSR1, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 3600)


def of_logger(name):
    logger = logging.getLogger(name)
    return logger.level, list(logger.handlers), logger.propagate, logger.disabled


THINGS = {
    "handlers": lambda: {number: signal.getsignal(number) for number in signal.valid_signals()},
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []),
    "timer": lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 3000,
    "start method": lambda: multiprocessing.get_start_method(allow_none=True),
    "threads": lambda: sorted(thread.name for thread in threading.enumerate()),
    "processes": lambda: open(f"/proc/self/task/{os.getpid()}/children").read(),
    "environment": lambda: {name: os.environ.get(name) for name in VARIABLES},
    "loggers": lambda: [of_logger(name) for name in LOGGERS],
    "disabled levels": lambda: logging.root.manager.disable,
    "directory": os.getcwd,
    "search path": lambda: list(sys.path),
    "warnings": lambda: (list(warnings.filters), warnings.showwarning),
    "random": random.getstate,
    "numpy.random": lambda: str(np.random.get_state()),
    "numpy": lambda: (np.geterr(), np.get_printoptions()),
    "garbage collection": lambda: (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 10_000),
    "hooks": lambda: (sys.excepthook, threading.excepthook, sys.unraisablehook, faulthandler.is_enabled()),
    "streams": lambda: (sys.stdout, sys.stderr, os.fstat(1), os.fstat(2).st_ino),
    "limits": lambda: (sys.getrecursionlimit(), sys.getswitchinterval()),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "umask": lambda: [os.umask(os.umask(0o27)), os.umask(0o22)][0],
    "ids": lambda: sorted(gymnasium.registry),
    "own environment": lambda: (own.calls, vars(own), own.unwrapped.state),
}
os.umask(0o22)


def changed(call, function, *args, **kwargs):
    before = {name: thing() for name, thing in THINGS.items()}
    try:
        return function(*args, **kwargs)
    finally:
        for name, thing in THINGS.items():
            if (after := thing()) != before[name]:
                print(json.dumps([call, name, str(before[name]), str(after)]), file=report)


report = open("changes", "w")
environment = {"lambda": lambda: own, "name": "catch"}[sys.argv[1]]
flags = {"total_environment_frames": 500, "num_actors": 1, "env_batch_size": 4, "log_period_secs": 0.3}
run = changed("train", seed_rl.train, environment, "ppo", **flags)
changed("train, complete", seed_rl.train, environment, "ppo", **flags)
changed("metrics", run.metrics)
changed("evaluate", run.evaluate, episodes=2)
agent = changed("load", run.load)
env = changed("make_env", run.make_env)
changed("act", agent.act, env.reset(seed=1)[0])
for name, bad in (("a typo", {"seeed": 1}), ("a list", {"seed": []})):
    try:
        changed(name, seed_rl.train, environment, "ppo", **bad)
    except seed_rl.UsageError:
        pass
report.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("environment", ["lambda", "name"])
def test_the_caller_finds_its_process_as_it_was(tmp_path, environment):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", environment],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": "/usr/lib"},  # OpenCV changes it.
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in (tmp_path / "changes").read_text().splitlines()] == []
