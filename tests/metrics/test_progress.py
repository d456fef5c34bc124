import contextlib
import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from seed_rl.metrics import progress
from seed_rl.metrics.progress import ProgressDisplay
from tests.waiting import wait_until

METRICS = {"env_frames": 25_000, "frames_per_second": 1500.0, "updates": 1234, "seconds": 120.0}
WAITS = {
    "training_waiting_share": 0.18,
    "inference_waiting_share": 0.3,
    "inference_blocked_share": 0.5,
    "actor_turn_ms": 1.0,
    "inference_latency_p50_ms": 3.0,
}
LINE_START = "\r\x1b[K"


def shown(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "no episode finished yet, 0:50 left"),
        ({"mean_return": -0.5}, "mean return -0.50, 0:50 left"),
        ({"mean_return": 1, "mean_evaluation_return": 2}, "mean return 1.00, in evaluation 2.00, 0:50 left"),
        ({"mean_return": 1, **WAITS}, "mean return 1.00, 0:50 left, training 82% busy"),
        ({"mean_return": 1, "frames_per_second": 10.0}, "mean return 1.00, 2:05:00 left"),
        ({"mean_return": 1, "frames_per_second": 0.0}, "mean return 1.00, unknown time left"),
        ({"secs_to_checkpoint": 49.9}, "no episode finished yet, 0:50 left, checkpoint in 0:49"),
        ({"secs_to_checkpoint": 60.0}, "no episode finished yet, 0:50 left"),
        ({"secs_to_checkpoint": -1.0}, "no episode finished yet, 0:50 left, checkpoint in 0:00"),
    ],
)
def test_a_period_is_a_plain_line_in_a_file(capsys, more, words):
    display = ProgressDisplay(100_000)
    display.show(METRICS | more)
    speed = more.get("frames_per_second", 1500)
    start = f"25,000 of 100,000 frames (25.0%), {speed:,.0f} frames/s, 1,234 updates, "
    assert shown(capsys) == [start + words]


def test_a_file_gets_a_line_for_each_stage_and_the_last_line_says_what_ended(capsys):
    display = ProgressDisplay(100_000)
    for what in ("importing X", "importing X", "making Y"):
        display.stage(what)
    display.say("Resuming from ckpt-3.")
    display.follow(lambda: METRICS)
    display.finish(METRICS | {"mean_return": 0.25}, "Training is complete")
    display.close()
    assert shown(capsys) == [
        "Importing X ...",
        "Making Y ...",
        "Resuming from ckpt-3.",
        "Training is complete: 25,000 frames in 2.0 minutes, 208 frames/s, mean return 0.25",
    ]


@pytest.fixture
def clock(monkeypatch):
    """Time that a test advances: `clock(seconds)`."""
    now = [1000.0]

    def advance(seconds):
        now[0] += seconds

    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_REDRAW_SECS", 1000.0)  # The test redraws.
    return advance


@pytest.mark.parametrize(("already", "silence"), [(0, 4.5), (120, 4.5), (270, 9.5)])
def test_a_stage_in_a_file_is_silent_for_five_seconds_at_most_and_later_for_longer(
    capsys, clock, already, silence
):
    display = ProgressDisplay(100_000)
    display.stage("importing X")
    clock(already)
    display._redraw()
    assert len(shown(capsys)) == 1 + bool(already)
    clock(silence - 0.5)
    display._redraw()
    assert shown(capsys) == []
    clock(0.5)
    display._redraw()
    display.close()
    assert shown(capsys) == [f"Importing X ... {already + silence:.0f} s"]


@pytest.mark.parametrize("has_log", [False, True])
def test_a_long_stage_has_details(capsys, clock, tmp_path, has_log):
    log = tmp_path / "actor.log"
    if has_log:
        log.touch()
    connected = iter(["1 connected", "2 connected"])
    display = ProgressDisplay(100_000, actor_log=log)
    display.stage("waiting for actors", lambda: next(connected))
    for _ in range(3):
        display._redraw()
        clock(5)
    display.close()
    lines, more = shown(capsys), f"; the first one's log is {log}" if has_log else ""
    assert lines == [
        "Waiting for actors ...",
        f"Waiting for actors: 1 connected{more} ... 5 s",
        f"Waiting for actors: 2 connected{more} ... 10 s",
    ]
    assert all(map(progress.is_stage, lines))


def test_after_the_stages_a_file_gets_the_periods_only_and_the_thread_ends(capsys, clock):
    before = threading.active_count()
    display = ProgressDisplay(100_000)
    display.stage("waiting for actors")
    assert threading.active_count() == before + 1
    display.show(METRICS | {"frames_per_second": 0.0})  # Nothing is new, and the stage is printed again.
    display.follow(lambda: METRICS)
    clock(1000)
    display._redraw()
    display.show(METRICS | {"frames_per_second": 0.0})
    display.close()
    waiting, period = shown(capsys)
    assert waiting == "Waiting for actors ..." and period.startswith("25,000 of 100,000 frames")
    assert threading.active_count() == before


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard output a terminal of some columns."""

    def make(columns, redraw=1000.0):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(progress, "_REDRAW_SECS", redraw)

    return make


def rewritten(capsys):
    return capsys.readouterr().out.split(LINE_START)[1:]


@pytest.mark.parametrize("columns", [20, 40, 80, 120, 200])
@pytest.mark.parametrize(("total", "mean_return"), [(150_000, 0.98), (10**12, -20.35), (10**12, 123_456.78)])
def test_a_terminal_gets_one_line_that_fits(capsys, terminal, columns, total, mean_return):
    terminal(columns)
    display = ProgressDisplay(total, [{"env_frames": n, "mean_return": float(n)} for n in range(100)])
    more = {"mean_return": mean_return, "mean_evaluation_return": 1.0, "secs_to_checkpoint": 99.5}
    display.show(METRICS | WAITS | more)
    (line,) = rewritten(capsys)
    assert len(line) < columns and "\n" not in line
    assert f"return {mean_return:.2f}" in line
    if columns >= 80:
        assert re.search("[▁▂▃▄▅▆▇█]{6}", line) and "frames/s" in line and " left" in line
    assert "training 82% busy" in line or columns < (80 if total < 10**6 else 120)
    assert "in evaluation 1.00" in line or columns < 120
    if columns >= 200:
        assert ("checkpoint in 1:39" in line) == (total > 10**6)  # The other run ends in 1:23.
        assert "training waits 18%  inference waits 80%  actors wait 75%" in line


def test_a_terminal_shows_what_is_new_between_periods(capsys, terminal):
    terminal(80, redraw=0.01)
    display = ProgressDisplay(100_000)
    now = {"env_frames": 10_000, "mean_return": -1.0}
    display.stage("compiling")
    display.follow(lambda: now)
    display.show(METRICS | now | WAITS)
    lines = rewritten(capsys)
    assert lines[0] == "Compiling ..." and "10% of 100k" in lines[-1]
    now = {"env_frames": 50_000, "mean_return": 1.0}
    wait_until(lambda: "50% of 100k" in (rewritten(capsys) or [""])[-1], "the new metrics")
    display.say("Still there.")
    display.finish(METRICS | now, "Training is complete")
    out = capsys.readouterr().out
    assert f"{LINE_START}Still there.\n" in out
    curve, last = out.split("\n")[-3:-1]
    assert curve.endswith("▁█") and last.startswith(f"{LINE_START}Training is complete: 50,000 frames")


def test_a_resumed_run_has_the_curve_of_its_earlier_sessions(capsys, terminal):
    """The last one was killed, and went on to 30,000 frames."""
    terminal(80)
    earlier = [{"env_frames": f, "mean_return": r} for f, r in ((0, 0.0), (5_000, 1.0), (30_000, 99.0))]
    display = ProgressDisplay(100_000, earlier)
    display.show(METRICS | {"mean_return": 7.0})
    assert "▁▄█" in rewritten(capsys)[-1]


def test_a_dumb_terminal_gets_plain_lines(capsys, terminal, monkeypatch):
    terminal(80)
    monkeypatch.setenv("TERM", "dumb")
    ProgressDisplay(100_000).show(METRICS)
    assert capsys.readouterr().out.startswith("25,000 of 100,000 frames")


SHOW = """
import sys
from seed_rl.metrics.progress import ProgressDisplay

display = ProgressDisplay(100_000)
input()
metrics = {"env_frames": 25_000, "frames_per_second": 1500.0, "updates": 1234, "seconds": 120.0}
display.stage("making X")
display.follow(lambda: metrics)
display.show(metrics | {"mean_return": 0.5})
display.say("Still there.")
display.finish(metrics, "Stopped with a checkpoint")
"""


def run_show(stdout, stderr=subprocess.PIPE, **env):
    streams = {"stdin": subprocess.PIPE, "stdout": stdout, "stderr": stderr, "env": {**os.environ, **env}}
    return subprocess.Popen([sys.executable, "-c", SHOW], text=True, **streams)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_real_terminal_is_recognized(encoding):
    ours, theirs = pty.openpty()
    process = run_show(theirs, TERM="xterm", COLUMNS="80", PYTHONIOENCODING=encoding)
    _, said = process.communicate("\n", timeout=60)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # Linux, at the end.
        while chunk := os.read(ours, 65536):
            output += chunk
    os.close(ours)
    assert (process.returncode, said) == (0, "")
    text = output.decode(encoding)
    assert f"{LINE_START}Still there.\r\n" in text and "return 0.50" in text
    assert text.endswith("no episode finished yet\r\n")


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        ("a closed pipe", "[Errno 32] Broken pipe"),
        ("of standard error, too", None),
        ("a full disk", "[Errno 28] No space left on device"),
    ],
)
def test_an_output_that_fails_is_said_once_and_ends_nothing(trouble, error):
    with open("/dev/full", "w") as full:
        process = run_show(
            full if "disk" in trouble else subprocess.PIPE, subprocess.PIPE if error else subprocess.STDOUT
        )
        if process.stdout:
            process.stdout.close()
        _, said = process.communicate("\n", timeout=60)
    assert process.returncode == 0, said
    sentence = f"Standard output cannot be written ({error}); training continues without it."
    assert not error or said == f"seed_rl: warning: {sentence}\n"
