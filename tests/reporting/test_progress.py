import subprocess
import sys

import pytest

from seed_rl.reporting.progress import ProgressDisplay

FIGURES = {"env_frames": 25_000, "frames_per_second": 1500.0, "updates": 1234, "seconds": 120.0}


def shown(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_period_is_a_line_in_a_file(capsys):
    ProgressDisplay(100_000, 0).show(FIGURES | {"mean_return": -0.5})
    assert shown(capsys) == [
        "25,000 of 100,000 frames (25.0%), 1,500 frames/s, 1,234 updates, mean return -0.50, 0:00:50 left"
    ]


def test_last_line_says_what_ended(capsys):
    display = ProgressDisplay(100_000, 0)
    display.say("Resuming from ckpt-3.")
    display.finish(FIGURES | {"mean_return": 0.25}, "Training is complete")
    assert shown(capsys) == [
        "Resuming from ckpt-3.",
        "Training is complete: 25,000 frames in 2.0 minutes, 208 frames/s, mean return 0.25",
    ]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    display = ProgressDisplay(100_000, 20_000)
    display.show(FIGURES)
    display.finish(FIGURES, "Stopped with a checkpoint")
    out = capsys.readouterr().out
    assert "25.0k/100k" in out.replace(" frames", "")
    assert out.splitlines()[-1].startswith("Stopped with a checkpoint: 25,000 frames")


SHOW = """
import sys
from seed_rl.reporting.progress import ProgressDisplay

display = ProgressDisplay(100_000, 0)
input()
figures = {"env_frames": 25_000, "frames_per_second": 1500.0, "updates": 1234, "seconds": 120.0}
display.show(figures)
display.say("Still there.")
display.finish(figures, "Stopped with a checkpoint")
"""


@pytest.mark.parametrize("stderr_too", [False, True])
def test_a_closed_pipe_is_said_once_and_ends_nothing(stderr_too):
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if stderr_too else subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    _, said = process.communicate("\n", timeout=60)
    assert process.returncode == 0, said
    if not stderr_too:
        assert said == (
            "seed_rl: warning: Standard output cannot be written ([Errno 32] Broken pipe); training "
            "continues without it.\n"
        )


def test_a_full_disk_is_said_once_and_ends_nothing():
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-c", SHOW],
            input="\n",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("seed_rl: warning: Standard output cannot be written ([Errno 28]") == 1
    assert len(run.stderr.splitlines()) == 1
