import sys

import pytest

from seed_rl.launch import recording
from seed_rl.launch.recording import Recorder
from tests.waiting import wait_until


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """Starts a recorder for checkpoint 5, every 50 ms, that runs this code; returns its messages."""
    started, said = [], []
    monkeypatch.setattr(recording, "warn", said.append)
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
