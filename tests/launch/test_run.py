import contextlib
import os
import signal
import sys

import pytest

from seed_rl.launch import run
from seed_rl.launch.run import Recorder
from seed_rl.signals import STOP_SIGNALS
from tests.waiting import wait_until

FOR_EVER = "for_ever()"

# A learner that writes its checkpoint when a signal ends it, and exits as `seed_rl learner` does.
SAVES = """
def save(*_):
    (here / "checkpoint").write_text("saved")
    print("learner: checkpoint written", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
(here / "ready").touch()
for_ever()
"""

IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
STUBBORN = f"{IGNORES}(here / 'stubborn').touch(); for_ever()"

LEARNER_ENDS_WHEN_TOLD = """
while not (here / "now").exists():
    time.sleep(0.01)
"""

# The supervisor has taken notice of the end of the process with this name.
WAIT_FOR_THE_END_OF = """
def wait_for_the_end_of(name):
    pid = int((here / f"{{name}}.start.1").read_text())
    try:
        while True:
            os.kill(pid, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return
wait_for_the_end_of({!r})
"""


def test_a_dead_learner_ends_the_run_and_counts_more_than_actors_that_die_of_it(start):
    dies_too = LEARNER_ENDS_WHEN_TOLD + "sys.exit(2)"
    dies_last = WAIT_FOR_THE_END_OF.format("actor0") + "print('learner: dead', flush=True); sys.exit(4)"
    run = start(LEARNER_ENDS_WHEN_TOLD + dies_last, dies_too, STUBBORN, verdict_grace=30.0)
    run.pid("learner"), run.pid("actor0"), run.wait_for_file("stubborn")
    assert run.end("now") == (4, "learner: dead\n")


@pytest.mark.parametrize(
    ("signum", "code", "output"),
    [
        (signal.SIGKILL, 128 + signal.SIGKILL, "seed_rl: the learner was ended by SIGKILL.\n"),
        (signal.SIGTERM, 143, "learner: checkpoint written\n"),
    ],
)
def test_a_signal_to_the_learner_alone_gives_its_code_and_a_killed_one_is_named(start, signum, code, output):
    run = start(SAVES, FOR_EVER)
    run.wait_for_file("ready"), run.pid("actor0")
    os.kill(run.pid("learner"), signum)
    assert run.end() == (code, output)


def test_a_learner_that_ends_with_0_before_training_is_complete_has_failed(start):
    assert start("os._exit(0)", FOR_EVER).end()[0] == 1


def test_actors_end_by_themselves_after_a_finished_learner(start):
    actor = LEARNER_ENDS_WHEN_TOLD + WAIT_FOR_THE_END_OF.format("learner") + "(here / 'actor_ended').touch()"
    run = start(LEARNER_ENDS_WHEN_TOLD + "print('done', flush=True)", actor, "pass", finish_grace=30.0)
    run.pid("learner"), run.pid("actor0")
    run.wait_until(lambda: not run.alive(run.pid("actor1")), "the end of one that ends well")
    os.kill(run.process.pid, 0)
    assert run.end("now") == (0, "done\n")
    assert (run.directory / "actor_ended").exists()
    assert not (run.directory / "actor1.start.2").exists()


def test_a_crashed_actor_is_started_again_and_its_log_goes_on(start):
    crash = "print('life', starts, flush=True)\nif starts < 3: sys.exit(f'actor: crash {starts}')\nfor_ever()"
    run = start(SAVES, crash, FOR_EVER)
    run.pid("actor0", start=3)
    run.wait_until(lambda: "life 3" in run.log(0), "the third life in the log")
    code, output = run.end(signal.SIGTERM)
    assert code == 143
    assert run.log(0).split("\n")[:-1] == ["life 1", "actor: crash 1", "life 2", "actor: crash 2", "life 3"]
    for number in (1, 2):
        details = f"actor: crash {number}; its log is {run.directory}/actor_0.log"
        assert f"seed_rl: actor 0 ended with exit code 1 ({details}); restart {number}." in output
    assert not (run.directory / "actor1.start.2").exists()


def test_a_refused_actor_ends_the_run_with_its_sentence_last(start):
    refused = "print('trace'); print('seed_rl: error: Task 7 is taken.'); sys.exit(2)"
    run = start(SAVES, LEARNER_ENDS_WHEN_TOLD + refused, FOR_EVER)
    run.wait_for_file("ready")
    code, output = run.end("now")
    assert code == 2
    assert output.splitlines()[-1] == "seed_rl: error: actor 0 ended the run: Task 7 is taken."
    assert (run.directory / "checkpoint").exists()


@pytest.mark.parametrize(("code", "end_of_run"), [(1, 0), (2, 2)])
def test_what_a_child_prints_last_is_escaped_and_cut(start, code, end_of_run):
    """Whether it is restarted or ends the run."""
    last = "print('seed_rl: error: \\x1b[2J\\r' + 10_000 * 'x' + ' why.');"
    start_1 = f"if starts == 1: {last} sys.exit({code})\n"
    run = start(LEARNER_ENDS_WHEN_TOLD, start_1 + "(here / 'now').touch(); for_ever()")
    ended, output = run.end()
    assert ended == end_of_run
    (line,) = (line for line in output.splitlines() if "actor 0" in line)
    assert line.isprintable() and "\\x1b[2J\\rxxx" in line and "xxx why." in line
    assert len(line) < 1000


# The code of actor 0, the run's exit code, its restarts, and words in its last line.
ENDS_AGAIN = "if starts < 3: os._exit({})\n(here / 'now').touch(); for_ever()"
PLAYS = "report_to_launcher(EPISODE)\nif starts < 7: os._exit(3)\n(here / 'now').touch(); for_ever()"
NO_DISPLAY = "print('No display.', flush=True); os._exit({})"
ACTORS = {
    **{f"ends with {code}": (ENDS_AGAIN.format(code), 0, 2, "before training was") for code in (0, 2)},
    **{f"ends with {code}": (ENDS_AGAIN.format(code), 0, 2, f"exit code {code}") for code in (1, 3)},
    "has played": (PLAYS, 0, 6, "exit code 3"),
    **{f"has never played, {code}": (NO_DISPLAY.format(code), 1, 3, "No display.") for code in (0, 1, 2)},
    "has never played, 137": (NO_DISPLAY.format(137), 137, 3, "No display."),
}


@pytest.mark.parametrize("actor", ACTORS)
def test_an_actor_that_only_its_environment_ended_is_started_again(start, actor):
    """Unless it keeps failing before its first finished episode: then the run ends with a checkpoint."""
    code, end_of_run, restarts, words = ACTORS[actor]
    fails = end_of_run != 0
    run = start(SAVES if fails else LEARNER_ENDS_WHEN_TOLD, code, FOR_EVER, longest_backoff=0.05)
    ended, output = run.end()
    assert (ended, output.count("restart")) == (end_of_run, restarts), output
    assert words in output.splitlines()[-1]
    assert fails == ("actor 0 failed 4 times before its first finished episode" in output)
    assert fails == (run.directory / "checkpoint").exists()


@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_a_signal_stops_everything_with_a_checkpoint(start, signum):
    run = start(SAVES, FOR_EVER, STUBBORN)
    run.wait_for_file("ready")
    run.pid("actor0"), run.wait_for_file("stubborn")
    code, output = run.end(signum)
    assert code == 128 + signum
    assert (run.directory / "checkpoint").read_text() == "saved"
    first, *lines = output.splitlines()
    assert first.startswith("seed_rl: stopping;")
    assert lines == ["learner: checkpoint written", "seed_rl: stopped; the same command resumes it."]


CTRL_C_KILLS = "signal.signal(signal.SIGINT, lambda *_: os._exit(9))\n"
READY = "(here / 'ready').touch(); for_ever()"
# The code of learner and actor, the exit code, and the run's last words.
STOPS = {
    "complete": (SAVES.replace("exit(143)", "exit(0)"), FOR_EVER, 0, "checkpoint written"),
    "cannot save": (SAVES.replace("exit(143)", "exit(1)"), FOR_EVER, 1, "checkpoint written"),
    "not ready": (READY, FOR_EVER, 130, "stopped before the learner was ready; there was nothing to save."),
    "too slow": (IGNORES + READY, FOR_EVER, 1, "within 0.2 s and was killed; the run resumes from its last"),
    "frozen actor": (SAVES, "os.kill(os.getpid(), signal.SIGSTOP)", 130, "the same command resumes it."),
    # The terminal's Ctrl-C reaches the children only through the supervisor.
    "whole group": (CTRL_C_KILLS + SAVES, CTRL_C_KILLS + FOR_EVER, 130, "the same command resumes it."),
}


@pytest.mark.parametrize("stop", STOPS)
def test_a_run_that_is_stopped_has_the_code_of_the_signal_or_its_own(start, stop):
    learner, actor, expected, words = STOPS[stop]
    grace = {"checkpoint_grace": 0.2} if stop == "too slow" else {}
    run = start(learner, actor, **grace)
    run.wait_for_file("ready"), run.pid("actor0")
    os.killpg(run.process.pid, signal.SIGINT)
    code, output = run.end()
    assert code == expected and words in output.splitlines()[-1], output


def test_a_second_signal_hurries(start):
    run = start(STUBBORN, FOR_EVER)
    run.wait_for_file("stubborn"), run.pid("actor0")
    run.signal(signal.SIGINT)
    assert run.process.stdout.readline().startswith("seed_rl: stopping;")
    code, output = run.end(signal.SIGINT)
    assert code == 130
    assert output == "seed_rl: stopping at once; the run resumes from its last complete checkpoint.\n"


def test_the_learner_sees_the_terminal_and_messages_make_room_for_its_progress_bar(start):
    ours, theirs = os.openpty()
    run = start("print('terminal:', sys.stdout.isatty(), flush=True)\n" + SAVES, FOR_EVER, stdout=theirs)
    run.wait_for_file("ready"), run.pid("actor0")
    assert run.end(signal.SIGTERM)[0] == 143
    output = os.read(ours, 65536).decode()
    os.close(ours), os.close(theirs)
    assert "terminal: True" in output
    assert "\r\x1b[Kseed_rl: stopping;" in output


def test_each_checkpoint_is_recorded_once_and_the_first_failure_is_the_last(tmp_path, monkeypatch):
    seen, said = tmp_path / "seen", []
    monkeypatch.setattr(run, "warn", said.append)
    (tmp_path / "checkpoints").mkdir()

    def complete(number):
        (tmp_path / "checkpoints" / f"ckpt-{number}.index").touch()

    def recording(code):
        command = [sys.executable, "-c", code]
        monkeypatch.setattr(Recorder, "_command", lambda self, newest: [*command, newest.name])
        stack.callback((recorder := Recorder(tmp_path, 0.05 / 60)).stop)
        return recorder

    complete(5)
    with contextlib.ExitStack() as stack:
        writes = "import sys, time; open({!r}, 'a').write(sys.argv[1] + ' ');"
        code = f"{writes} 'ckpt-9' in sys.argv and time.sleep(600)"
        one = recording(code.format(str(seen)))
        for number in (7, 9):
            wait_until(seen.exists, "the first recording")
            complete(number)
            wait_until(lambda number=number: f"ckpt-{number}" in seen.read_text(), "the next recording")
        one.stop()  # Also what is in progress.
        assert seen.read_text().split() == ["ckpt-5", "ckpt-7", "ckpt-9"] and said == []
        recording("print('There is no video.'); raise SystemExit(2)")
        wait_until(lambda: said, "a warning")
    assert "There is no video." in said[0] and len(said) == 1
