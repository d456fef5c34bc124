"""Observations and limits when an environment fails; `test_odd` has the kinds of failures."""

import json
import logging
import re
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig
from tests.environments import broken
from tests.environments.broken import BUGS
from tests.environments.odd import LENGTH, WHEN, Odd, raises

GONE = raises(RuntimeError("the engine is gone"))
PLACE = f"odd.py:{GONE.__code__.co_firstlineno + 1} in function"
FIRST_ENV = 10


def make(*kinds, max_failures=3):
    """A batch of two environments that was reset, and all that are made; those after `kinds` are valid."""
    made = []

    def make_env(config, seed):
        made.append(Odd(**(kinds[len(made)] if len(made) < len(kinds) else {})))
        return made[-1]

    tolerance = FailureConfig(max_environment_failures=max_failures, env_step_timeout_secs=0)
    suite = Suite(EnvironmentConfig, make_env)
    batch = SingleEnvironments(suite, EnvironmentConfig(), [0, 1], tolerance, FIRST_ENV)
    batch.reset()
    return batch, made


def play(batch, agent_steps):
    """(observation, reward, done, truncated) of environment 0 over time."""
    trace = []
    for _ in range(agent_steps):
        env, _ = batch.step(np.zeros(2, np.int32))
        assert not (env.done & env.truncated).any()
        trace.append((env.observation[0, 0], env.reward[0], env.done[0], env.truncated[0]))
    return trace


def test_a_failed_step_voids_the_episode_and_another_environment_goes_on():
    closed = []
    batch, made = make({"step": GONE, "close": closed.append})
    assert play(batch, WHEN + 1 + LENGTH) == [
        (1, 1, False, False),
        (2, 1, False, False),
        (2, 0, False, True),  # The last good observation again.
        (0, 0, True, False),  # Another environment.
        (1, 1, False, False),
        (2, 1, False, False),
        (3, 1, False, False),
        (4, 1, False, False),
        (0, 1, True, False),
    ]
    assert (len(made), len(closed)) == (3, 1)


def test_a_failed_reset_keeps_the_reward_of_the_episode_before():
    batch, made = make()
    made[0].replaced["reset"] = GONE
    assert play(batch, LENGTH)[-1] == (0, 1, True, False)
    assert len(made) == 3


@pytest.mark.parametrize("place", ["make", "reset"])
def test_handlers_of_signals_are_back_when_an_environment_has_replaced_them(place):
    class Handling(gymnasium.wrappers.TimeLimit):
        def reset(self, **kwargs):
            if place == "reset":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            return super().reset(**kwargs)

    def make(config, seed):
        if place == "make":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return Handling(gymnasium.make("CartPole-v1"), 10)

    before = signal.getsignal(signal.SIGTERM)
    batch = SingleEnvironments(Suite(EnvironmentConfig, make), EnvironmentConfig(), [1])
    batch.reset([1])
    assert signal.getsignal(signal.SIGTERM) is before
    batch.close()


def test_one_failure_too_many_names_environment_episode_and_step():
    batch, _ = make({}, {"step": GONE}, max_failures=0)
    sentence = (
        f"Environment {FIRST_ENV + 1} failed in episode 1 at agent step {WHEN}: step() raised RuntimeError: "
        f"the engine is gone ({PLACE}); this was failure 1 without a finished episode: "
    )
    with pytest.raises(EnvironmentFailedError, match=f"^{re.escape(sentence)}.*--max_environment_failures"):
        play(batch, WHEN)


def test_an_episode_that_ends_forgives():
    batch, made = make({"step": GONE}, max_failures=1)
    play(batch, WHEN + 1 + LENGTH)  # A failure, then a whole episode.
    made[2].replaced["step"] = GONE
    play(batch, WHEN + 1)
    assert len(made) == 4


def fails(bug, method, caplog):
    """The lines of the log, and the sentence at the end, of an environment whose method has a bug."""
    caplog.set_level(logging.INFO)
    kwargs = json.dumps({"bug": bug, "method": method})
    config = GymConfig(game="tests.environments.broken:Broken-v0", env_kwargs=kwargs)
    tolerance = FailureConfig(max_environment_failures=2, env_step_timeout_secs=0.2)
    with pytest.raises(EnvironmentFailedError) as error:
        batch = SingleEnvironments(SUITE, config, [0, 1], tolerance)
        batch.reset([0, 1])
        for _ in range(99):
            batch.step(np.zeros(2, np.int32))
    return [record.getMessage() for record in caplog.records], error.value.what


@pytest.mark.parametrize("method", ["make", "reset", "step"])
@pytest.mark.parametrize("bug", BUGS)
def test_a_users_bug_is_found_by_the_sentence_and_one_traceback(bug, method, caplog):
    log, what = fails(bug, method, caplog)
    line, text = broken.place(bug), BUGS[bug].says
    called = "step" if method == "step" else "make"  # Which resets them.
    assert f": {called}() {text}" in what and what.endswith(f" (broken.py:{line} in {bug})")
    tracebacks = [index for index, message in enumerate(log) if message.startswith("| Traceback")]
    assert len(tracebacks) == 1 + BUGS[bug].causes
    assert f'File "{broken.__file__}", line {line}, in {bug}' in "".join(log)
    for package in ("seed_rl/environments", "gymnasium"):
        assert not any(f"/{package}/" in message for message in log), log
    names = [name for name in ("__init__", "reset", "step") if any(m.endswith(f"in {name}") for m in log)]
    assert names == [{"make": "__init__"}.get(method, method)]


def test_native_code_that_ends_an_actor_leaves_a_stack():
    """In the launcher's log of the actor, which is the actor's standard error."""
    code = "import os; from seed_rl.launch import actor_process as actor; actor.log_lines = os.abort\n"
    code += "actor.run_actor([''], '', None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Fatal Python error: Aborted" in done.stderr and "actor_process.py" in done.stderr
