import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import plugin_data_pb2

from seed_rl.metrics import writer as metrics_writer
from seed_rl.metrics.writer import MetricsWriter
from tests.waiting import DEADLINE_SECS


def lines(logdir):
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    text = (logdir / "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def events(logdir):
    """TensorBoard's events that have a value."""
    for path in (logdir / "tensorboard").iterdir():
        yield from (e for e in tf.compat.v1.train.summary_iterator(str(path)) if e.summary.value)


def event_steps(logdir):
    return sorted(event.step for event in events(logdir))


def test_a_line_is_json_and_what_is_not_finite_is_null(tmp_path):
    writer = MetricsWriter(str(tmp_path))
    odd = {"nan": float("nan"), "inf": -np.inf, "x": tf.constant(2), "loss": 123.45678912}
    writer.write({"env_frames": 40, "step_norm/network/core": 1.2345678e-7, "rate": np.float32(0.25), **odd})
    writer.close()
    written = {"rate": 0.25, "step_norm/network/core": 1.23457e-7, "x": 2.0, "loss": 123.456789}
    assert lines(tmp_path) == [{"env_frames": 40, "nan": None, "inf": None, **written}]
    assert {value.tag for event in events(tmp_path) for value in event.summary.value} == written.keys()


def test_tensorflow_keeps_none_of_the_metrics(tmp_path):
    """Its cache of Python's numbers never forgets one: 750 bytes for each metric of each period."""
    writer, frames, episodes = MetricsWriter(str(tmp_path)), 123_456, 1_234

    def references():
        return sys.getrefcount(frames), sys.getrefcount(episodes)

    before, others = references(), set(threading.enumerate())
    writer.write({"env_frames": frames, "episodes": episodes})
    for thread in set(threading.enumerate()) - others:  # The one that wrote them has them until its end.
        thread.join(60.0)
    assert references() == before
    writer.close()


def test_an_incomplete_last_line_does_not_swallow_the_next(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"env_frames": 1}\n{"env_frames": 2, "lo')
    writer = MetricsWriter(str(tmp_path))
    writer.write({"env_frames": 3})
    writer.write({"env_frames": 4})
    writer.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"env_frames": 1}\n{"env_frames": 2, "lo\n{"env_frames": 3}\n{"env_frames": 4}\n'


def test_no_file_stays_open_for_long(tmp_path, monkeypatch):
    """A bucket that is mounted as a directory keeps only what is in files that were closed."""
    writer = MetricsWriter(str(tmp_path))
    writer.write({"env_frames": 1, "loss": 1.0})
    path = tmp_path / "metrics.jsonl"
    path.rename(tmp_path / "closed")
    monkeypatch.setattr(metrics_writer, "_EVENTS_FILE_SECS", 0.0)
    writer.write({"env_frames": 2, "loss": 2.0})
    assert lines(tmp_path) == [{"env_frames": 2, "loss": 2.0}]
    writer.close()
    assert event_steps(tmp_path) == [1, 2]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_tensorboard_has_the_settings_as_text_and_as_hyperparameters(tmp_path):
    settings = {"agent": {"lambda_": 0.5, "limit": None, "lstm": True}, "seed": 3}
    MetricsWriter(str(tmp_path), settings).close()
    values = {value.tag: value for event in events(tmp_path) for value in event.summary.value}
    (text,) = (tf.make_ndarray(value.tensor) for tag, value in values.items() if tag.startswith("settings"))
    assert '"lambda_": 0.5' in str(text)
    content = plugin_data_pb2.HParamsPluginData.FromString(
        values["_hparams_/session_start_info"].metadata.plugin_data.content
    )
    found = content.session_start_info.hparams
    assert found["agent/lambda_"].number_value == 0.5
    assert found["agent/limit"].string_value == "None"
    assert found["agent/lstm"].bool_value is True
    assert found["seed"].number_value == 3


def test_trouble_with_one_output_is_said_once_and_the_others_go_on(tmp_path, capsys):
    os.symlink("/dev/full", tmp_path / "metrics.jsonl")
    writer = MetricsWriter(str(tmp_path))
    for frames in (1, 2):
        writer.write({"env_frames": frames, "loss": 0.5})
    writer.close()
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        f"seed_rl: warning: {tmp_path}/metrics.jsonl cannot be written ([Errno 28] No space left on device); "
        "training continues without it."
    )
    assert event_steps(tmp_path) == [1, 2]


def test_events_are_written_again_when_there_is_space(tmp_path, capsys):
    (tmp_path / "tensorboard").touch()
    writer = MetricsWriter(str(tmp_path), {"seed": 3})
    writer.write({"env_frames": 1, "loss": 0.5})
    (tmp_path / "tensorboard").unlink()
    writer.write({"env_frames": 2, "loss": 0.5})
    writer.close()
    assert [line["env_frames"] for line in lines(tmp_path)] == [1, 2]
    assert event_steps(tmp_path) == [2]
    assert capsys.readouterr().err.count("TensorBoard's events cannot be written") == 1


WITHOUT_FILES = """
import resource, sys
from seed_rl.metrics.writer import MetricsWriter

writer = MetricsWriter(sys.argv[1])
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
for frames, most in enumerate([limits[0], 0, limits[0]]):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    writer.write({"env_frames": frames, "loss": 0.5})
writer.close()
"""


@pytest.mark.slow
def test_a_process_that_may_open_no_more_files_loses_metrics_and_nothing_else(tmp_path):
    """A regression: TensorFlow ended it, in a new thread that draws its seed from a file."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_FILES, str(tmp_path)], timeout=DEADLINE_SECS)
    assert done.returncode == 0
    assert [line["env_frames"] for line in lines(tmp_path)] == event_steps(tmp_path) == [0, 2]


LOST_SERVICE = """
import signal, sys
import psutil
from seed_rl.metrics import writer as metrics_writer

metrics_writer._PATIENCE_SECS = 1.0
writer = metrics_writer.MetricsWriter(sys.argv[1], {}, "seed_rl_test")
writer.write({"env_frames": 1, "loss": 0.5})
for process in psutil.Process().children(recursive=True):
    process.send_signal(getattr(signal, sys.argv[2]))
for frames in (2, 3):
    writer.write({"env_frames": frames, "loss": 0.5})
writer.close()
print("the end")
"""


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["SIGKILL", "SIGSTOP"])
def test_a_service_of_weights_and_biases_that_is_lost_ends_nothing(tmp_path, trouble):
    pytest.importorskip("wandb")
    run = subprocess.run(
        [sys.executable, "-c", LOST_SERVICE, tmp_path, trouble],
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "the end\n"
    assert run.stderr.count("seed_rl: warning: Weights & Biases cannot be written (") == 1
    assert "Traceback" not in run.stderr
    assert [line["env_frames"] for line in lines(tmp_path)] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(5))  # The files have to be complete every time.
def test_weights_and_biases_has_the_metrics_and_a_resumed_run_is_the_same_run(tmp_path, monkeypatch, attempt):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for frames in (1, 2):
        writer = MetricsWriter(str(tmp_path), {"seed": 3}, "seed_rl_test")
        writer.write({"env_frames": frames, "loss": 0.5, "nothing": float("nan")})
        writer.close()
    written = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(written) == 2
    assert len({path.name for path in written}) == 1  # The run's id, also of two within a second.
    assert all(b"loss" in path.read_bytes() for path in written)
