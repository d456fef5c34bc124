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

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(here / "stubborn").touch()
for_ever()
"""

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


def test_a_dead_learner_ends_the_run_with_its_own_error_last(start):
    run = start(
        LEARNER_ENDS_WHEN_TOLD + "print('learner: out of luck', flush=True); sys.exit(3)", FOR_EVER, STUBBORN
    )
    run.pid("actor0")
    run.wait_for_file("stubborn")
    (run.directory / "now").touch()
    code, output = run.end()
    assert code == 3
    assert output == "learner: out of luck\n"


def test_a_dead_learner_counts_more_than_actors_that_die_of_it(start):
    dies_too = LEARNER_ENDS_WHEN_TOLD + "sys.exit(2)"
    dies_last = WAIT_FOR_THE_END_OF.format("actor0") + "print('learner: dead', flush=True); sys.exit(4)"
    run = start(LEARNER_ENDS_WHEN_TOLD + dies_last, dies_too, verdict_grace=30.0)
    run.pid("learner"), run.pid("actor0")
    (run.directory / "now").touch()
    assert run.end() == (4, "learner: dead\n")


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


def test_actors_end_by_themselves_after_a_finished_learner(start):
    actor = LEARNER_ENDS_WHEN_TOLD + WAIT_FOR_THE_END_OF.format("learner") + "(here / 'actor_ended').touch()"
    run = start(LEARNER_ENDS_WHEN_TOLD + "print('done', flush=True)", actor, finish_grace=30.0)
    run.pid("learner"), run.pid("actor0")
    (run.directory / "now").touch()
    assert run.end() == (0, "done\n")
    assert (run.directory / "actor_ended").exists()


def test_a_crashed_actor_is_started_again_and_its_log_goes_on(start):
    crash = "print('life', starts, flush=True)\nif starts < 3: sys.exit(f'actor: crash {starts}')\nfor_ever()"
    run = start(SAVES, crash, FOR_EVER)
    run.pid("actor0", start=3)
    run.wait_until(lambda: "life 3" in run.log(0), "the third life in the log")
    run.signal(signal.SIGTERM)
    code, output = run.end()
    assert code == 143
    assert run.log(0).split("\n")[:-1] == ["life 1", "actor: crash 1", "life 2", "actor: crash 2", "life 3"]
    for number in (1, 2):
        details = f"actor: crash {number}; its log is {run.directory}/actor_0.log"
        assert f"seed_rl: actor 0 ended with exit code 1 ({details}); restart {number}." in output
    assert not (run.directory / "actor1.start.2").exists()


def test_an_actor_that_ended_well_is_not_started_again(start):
    run = start(LEARNER_ENDS_WHEN_TOLD, "pass")
    run.wait_until(lambda: not run.alive(run.pid("actor0")), "the actor's end")
    os.kill(run.process.pid, 0)
    (run.directory / "now").touch()
    assert run.end() == (0, "")
    assert not (run.directory / "actor0.start.2").exists()


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_an_actor_that_only_its_environment_ended_is_started_again_whatever_the_code(start, code):
    run = start(
        LEARNER_ENDS_WHEN_TOLD, f"if starts < 3: os._exit({code})\n(here / 'now').touch(); for_ever()"
    )
    ended, output = run.end()
    assert ended == 0
    assert output.count("restart") == 2, output
    assert ("before training was complete" in output) == (code in (0, 2))


@pytest.mark.parametrize("code", [0, 1, 2, 137])
def test_an_actor_that_never_finishes_an_episode_ends_the_run_after_three_restarts(start, code):
    run = start(SAVES, f"print('No display.', flush=True); os._exit({code})", FOR_EVER)
    ended, output = run.end()
    assert ended == (code if code == 137 else 1)
    assert output.count("restart") == 3
    last = output.splitlines()[-1]
    assert "actor 0 failed 4 times before its first finished episode" in last and "No display." in last
    assert (run.directory / "checkpoint").exists()


def test_an_actor_that_finishes_an_episode_each_time_is_started_again_without_limit(start):
    crash = "report_to_launcher(EPISODE)\nif starts < 7: os._exit(3)\n(here / 'now').touch(); for_ever()"
    run = start(LEARNER_ENDS_WHEN_TOLD, crash, longest_backoff=0.05)
    ended, output = run.end()
    assert (ended, output.count("restart")) == (0, 6)


def test_a_learner_that_ends_with_0_before_training_is_complete_has_failed(start):
    run = start("os._exit(0)", FOR_EVER)
    assert run.end()[0] == 1


def test_a_refused_actor_ends_the_run_with_its_sentence_last(start):
    refused = (
        LEARNER_ENDS_WHEN_TOLD + "print('trace'); print('seed_rl: error: Task 7 is taken.'); sys.exit(2)"
    )
    run = start(SAVES, refused, FOR_EVER)
    run.wait_for_file("ready")
    (run.directory / "now").touch()
    code, output = run.end()
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


@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_a_signal_stops_everything_with_a_checkpoint(start, signum):
    run = start(SAVES, FOR_EVER, STUBBORN)
    run.wait_for_file("ready")
    run.pid("actor0"), run.wait_for_file("stubborn")
    run.signal(signum)
    code, output = run.end()
    assert code == 128 + signum
    assert (run.directory / "checkpoint").read_text() == "saved"
    first, *lines = output.splitlines()
    assert first.startswith("seed_rl: stopping;")
    assert lines == ["learner: checkpoint written", "seed_rl: stopped; the same command resumes it."]


@pytest.mark.parametrize("code", [0, 1])
def test_a_learner_that_completes_or_cannot_save_at_a_signal_gives_its_own_code(start, code):
    run = start(SAVES.replace("sys.exit(143)", f"sys.exit({code})"), FOR_EVER)
    run.wait_for_file("ready")
    run.signal(signal.SIGTERM)
    ended, output = run.end()
    assert ended == code
    assert code or "resumes" not in output


def test_a_learner_that_was_not_ready_for_the_signal_is_no_complete_run(start):
    run = start("(here / 'ready').touch(); for_ever()", FOR_EVER)
    run.wait_for_file("ready")
    run.signal(signal.SIGINT)
    code, output = run.end()
    assert code == 130
    assert output.endswith("seed_rl: stopped before the learner was ready; there was nothing to save.\n")


def test_the_learner_sees_the_terminal_and_messages_make_room_for_its_progress_bar(start):
    ours, theirs = os.openpty()
    run = start("print('terminal:', sys.stdout.isatty(), flush=True)\n" + SAVES, FOR_EVER, stdout=theirs)
    run.wait_for_file("ready"), run.pid("actor0")
    run.signal(signal.SIGTERM)
    assert run.end()[0] == 143
    output = os.read(ours, 65536).decode()
    os.close(ours), os.close(theirs)
    assert "terminal: True" in output
    assert "\r\x1b[Kseed_rl: stopping;" in output


def test_the_terminals_ctrl_c_reaches_the_children_only_through_the_supervisor(start):
    dies_of_ctrl_c = "signal.signal(signal.SIGINT, lambda *_: os._exit(9))\n"
    run = start(dies_of_ctrl_c + SAVES, dies_of_ctrl_c + "(here / 'actor_ready').touch(); for_ever()")
    run.wait_for_file("ready"), run.wait_for_file("actor_ready")
    os.killpg(run.process.pid, signal.SIGINT)
    code, output = run.end()
    assert code == 130, output


def test_a_second_signal_hurries(start):
    run = start(STUBBORN, FOR_EVER)
    run.wait_for_file("stubborn"), run.pid("actor0")
    run.signal(signal.SIGINT)
    assert run.process.stdout.readline().startswith("seed_rl: stopping;")
    run.signal(signal.SIGINT)
    code, output = run.end()
    assert code == 130
    assert output == "seed_rl: stopping at once; the run resumes from its last complete checkpoint.\n"


def test_a_learner_that_does_not_end_in_time_is_killed(start):
    run = start(STUBBORN, FOR_EVER, checkpoint_grace=0.2)
    run.wait_for_file("stubborn")
    run.signal(signal.SIGTERM)
    code, output = run.end()
    assert code == 1
    assert "the learner did not end within 0.2 s and was killed" in output


def test_a_frozen_actor_does_not_hold_up_the_end(start):
    run = start(SAVES, FOR_EVER)
    os.kill(run.pid("actor0"), signal.SIGSTOP)
    run.wait_for_file("ready")
    run.signal(signal.SIGTERM)
    assert run.end()[0] == 143


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """Starts a recorder for checkpoint 5, every 50 ms, that runs this code; returns its messages."""
    started, said = [], []
    monkeypatch.setattr(run, "warn", said.append)
    (tmp_path / "checkpoints").mkdir()

    def start(code, checkpoint=True):
        if checkpoint:
            (tmp_path / "checkpoints" / "ckpt-5.index").touch()
        monkeypatch.setattr(
            Recorder, "_command", lambda self, newest: [sys.executable, "-c", code, newest.name]
        )
        started.append(Recorder(tmp_path, 0.05 / 60))
        return started[-1], said

    yield start
    for one in started:
        one.stop()


def test_each_checkpoint_is_recorded_once(recorder, tmp_path):
    code = f"import sys; open('{tmp_path}/seen', 'a').write(sys.argv[1] + ' ')"
    one, said = recorder(code)
    wait_until(lambda: (tmp_path / "seen").exists(), "the first recording")
    (tmp_path / "checkpoints" / "ckpt-7.index").touch()
    wait_until(lambda: "ckpt-7" in (tmp_path / "seen").read_text(), "the second recording")
    one.stop()
    assert (tmp_path / "seen").read_text().split() == ["ckpt-5", "ckpt-7"]
    assert said == []


def test_the_first_failure_is_the_last_and_is_said(recorder, tmp_path):
    _, said = recorder("print('There is no video.'); raise SystemExit(2)")
    wait_until(lambda: said, "a warning")
    assert "There is no video." in said[0] and len(said) == 1


def test_a_recording_in_progress_ends_with_the_run(recorder, tmp_path):
    one, said = recorder(f"import time; open('{tmp_path}/seen', 'w'); time.sleep(600)")
    wait_until(lambda: (tmp_path / "seen").exists(), "the recording")
    one.stop()
    assert said == []
