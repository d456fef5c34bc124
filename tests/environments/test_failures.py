"""Observations and limits when an environment fails; `test_odd` has the kinds of failures."""

import itertools
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seed_rl.environments import failures
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig, HungError
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites.classic import SUITE, GymConfig
from tests.environments import broken
from tests.environments.broken import BUGS
from tests.environments.odd import LENGTH, WHEN, odd_batch, raises

GONE = raises(RuntimeError("the engine is gone"))


def play(batch, agent_steps):
    """(observation, reward, done, truncated) of environment 0 over time."""
    trace = []
    for _ in range(agent_steps):
        env, _ = batch.step(np.zeros(2, np.int32))
        assert not (env.done & env.truncated).any()
        trace.append((env.observation[0, 0], env.reward[0], env.done[0], env.truncated[0]))
    return trace


def test_a_failed_step_voids_the_episode_and_another_environment_goes_on_until_it_fails():
    closed = []
    batch, made = odd_batch({"step": GONE, "close": closed.append}, max_failures=1)
    batch.reset()
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
    made[2].replaced["step"] = GONE
    play(batch, WHEN + 1)
    assert len(made) == 4  # The episode that ended has cleared the count.


def test_a_failed_reset_keeps_the_reward_of_the_episode_before():
    batch, made = odd_batch()
    batch.reset()
    made[0].replaced["reset"] = GONE
    assert play(batch, LENGTH)[-1] == (0, 1, True, False)
    assert len(made) == 3


@pytest.mark.parametrize("place", ["make", "reset"])
def test_handlers_of_signals_are_back_when_an_environment_has_replaced_them(place):
    def ignores(honest):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return honest

    before = signal.getsignal(signal.SIGTERM)
    batch, _ = odd_batch({place: ignores}, num_envs=1)
    batch.reset([1])
    assert signal.getsignal(signal.SIGTERM) is before


def interrupted_steps(error, played=0, only_in_calls=False):
    """(result of a step or what it raised, environments), once for each instruction that `error` precedes.

    It is raised as by a handler of a signal; `only_in_calls`: only while the step of an environment has begun
    and does not count as ended.
    """
    package = str(Path(failures.__file__).parent)
    for place in itertools.count():
        batch, envs = odd_batch(num_envs=2)
        batch.reset()
        for _ in range(played):
            batch.step(np.zeros(2, np.int32))
        left, ended = place, batch._deadline.calls

        def trace(frame, event, arg):
            nonlocal left
            if not frame.f_code.co_filename.startswith(package):
                return None
            frame.f_trace_opcodes = True
            in_call = sum(env.played for env in envs) > batch._deadline.calls - ended  # noqa: B023
            if event == "opcode" and (in_call or not only_in_calls):
                left -= 1
                if left == -1:
                    raise error
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            found = batch.step(np.zeros(2, np.int32))
        except BaseException as raised:
            found = raised
        finally:
            sys.settrace(before)
        if left >= 0:
            assert place > 5
            return
        yield found, envs


@pytest.mark.parametrize("played", [0, LENGTH - 1])
def test_a_signal_to_stop_may_come_at_any_instruction_of_a_step(played):
    for found, _ in interrupted_steps(KeyboardInterrupt(), played):
        assert isinstance(found, KeyboardInterrupt)


def test_a_limit_of_time_may_be_over_at_any_instruction_of_a_call():
    for (output, _), envs in interrupted_steps(HungError("is late"), only_in_calls=True):
        assert [env.played for env in envs] == [1, 1]
        assert [*output.observation[~output.truncated, 0]] == [1] * (2 - output.truncated.sum())


def fails(bug, method, caplog):
    """The lines of the log, and the sentence at the end, of an environment whose method has a bug."""
    caplog.set_level(logging.INFO)
    kwargs = json.dumps({"bug": bug, "method": method})
    config = GymConfig(game="tests.environments.broken:Broken-v0", env_kwargs=kwargs)
    limit = 1.0 if bug == "hangs" else 0.0  # Seconds; nothing else hangs.
    tolerance = FailureConfig(max_environment_failures=2, env_step_timeout_secs=limit)
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
