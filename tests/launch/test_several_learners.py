"""Several learners under the supervisor: they end together, and start again together."""

import os
import signal

import psutil
import pytest

from tests.launch.test_run import FOR_EVER, LEARNER_ENDS_WHEN_TOLD, SAVES, STUBBORN
from tests.selection import mostly_slow

# A learner host that ends with 1 once the file `lost` is there, as if it had noticed a loss.
NOTICES = """
while not (here / "lost").exists():
    time.sleep(0.01)
sys.exit(f"seed_rl: error: learner host is lost: its connection ended.")
"""
ONCE = "if starts > 1: sys.exit(0)\n"  # In a second life, training is complete.

AGAIN = "; all learners start again from the last checkpoint (restart {} of 5)."


@pytest.mark.parametrize("poll", mostly_slow([0.01, 1.0], [0.01]))
def test_all_start_again_when_another_learner_is_killed(start, poll):
    """Also if the supervisor checks only after 1 s: the learner that detected it has ended too by then."""
    run = start(ONCE + NOTICES, FOR_EVER, others=[ONCE + FOR_EVER], poll=poll)
    actor, lost = run.pid("actor0"), run.pid("learner1")
    os.kill(lost, signal.SIGKILL)
    run.wait_until(lambda: not run.alive(lost), "the end of learner 1")
    code, output = run.end("lost")
    assert code == 0
    log = run.directory / "learner_1.log"
    said = [line for line in output.splitlines() if line.startswith("seed_rl: learner 1")]
    assert said == [f"seed_rl: learner 1 was ended by SIGKILL (its log is {log})" + AGAIN.format(1)]
    assert run.pid("actor0", start=2) != actor


@pytest.mark.parametrize(
    ("first", "grace", "words"),
    [
        # It was killed, so it is named even if it ends after one that noticed.
        ("time.sleep(0.3)\nos.kill(os.getpid(), signal.SIGKILL)", 30.0, "learner 0 was ended by SIGKILL"),
        # It does not notice the loss, and is ended.
        (STUBBORN, 0.3, "learner 1 ended with exit code 1 (its log is {log})"),
    ],
)
def test_a_lost_learner_is_named_and_all_start_again(start, first, grace, words):
    run = start(ONCE + first, FOR_EVER, others=[ONCE + "sys.exit(1)"], checkpoint_grace=grace)
    words = words.format(log=run.directory / "learner_1.log")
    assert run.end() == (0, f"seed_rl: {words}{AGAIN.format(1)}\n")


def test_learners_that_always_fail_are_given_up(start):
    run = start("sys.exit(1)", others=["print('no luck'); sys.exit(1)"], first_backoff=0.0)
    code, output = run.end()
    assert code == 1
    assert len(list(run.directory.glob("learner.start.*"))) == 6
    assert "error: after 5 restarts of the learners, learner " in output.splitlines()[-1]


def test_a_wrong_setting_is_final_and_said_once(start):
    wrong = "print('seed_rl: error: --learner_index=1 is wrong.', flush=True)\nsys.exit(2)"
    run = start(wrong, FOR_EVER, others=[wrong], verdict_grace=30.0)
    assert run.end() == (2, "seed_rl: error: --learner_index=1 is wrong.\n")
    for path in run.directory.iterdir():
        path.unlink()
    run = start(SAVES, FOR_EVER, others=[wrong])
    code, output = run.end()
    assert code == 2
    assert output.splitlines()[-1] == "seed_rl: error: learner 1 ended the run: --learner_index=1 is wrong."
    assert not (run.directory / "learner.start.2").exists()


ENDS = [("learner", "learner1", 0), *(("learner1", "learner", code) for code in (0, 130, 143))]


@pytest.mark.parametrize(("done", "saving", "code"), ENDS)
def test_a_learner_that_is_complete_or_was_stopped_is_final_and_another_one_may_still_save(
    start, done, saving, code
):
    ends = f"sys.exit({code})"
    codes = {done: ends, saving: f"{LEARNER_ENDS_WHEN_TOLD}(here / 'saved').touch(); {ends}"}
    run = start(codes["learner"], FOR_EVER, others=[codes["learner1"]])
    run.wait_until(lambda: not run.alive(run.pid(done)), "the end of one")
    assert run.end("now") == (code, "")
    assert (run.directory / "saved").exists()


def test_a_signal_reaches_all_learners_and_the_first_ones_code_counts(start):
    save_too = SAVES.replace("checkpoint", "replay").replace("ready", "ready1")
    run = start(SAVES, FOR_EVER, others=[save_too])
    for name in ("ready", "ready1"):
        run.wait_for_file(name)
    code, output = run.end(signal.SIGINT)
    assert code == 130
    assert {path.name for path in run.directory.iterdir()} >= {"checkpoint", "replay"}
    assert output.splitlines()[-1] == "seed_rl: stopped; the same command resumes it."


def test_a_signal_while_learners_fall_is_the_end(start):
    run = start("(here / 'stubborn').touch(); for_ever()", FOR_EVER, others=[NOTICES])
    run.wait_for_file("stubborn")
    reaper = psutil.Process(run.pid("learner1")).ppid()
    (run.directory / "lost").touch()
    run.wait_until(lambda: not run.alive(reaper), "the end of learner 1")
    code, output = run.end(signal.SIGTERM)
    assert code == 1
    assert "start again" not in output
    assert not (run.directory / "learner.start.2").exists()
