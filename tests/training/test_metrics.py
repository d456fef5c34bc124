import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import plugin_data_pb2

from seed_rl.training import metrics
from seed_rl.training.metrics import MetricsWriter


def lines(logdir):
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    text = (logdir / "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_a_line_is_json_and_what_is_not_finite_is_null(tmp_path):
    writer = MetricsWriter(str(tmp_path))
    writer.write(
        {"env_frames": 40, "loss": np.float32(0.25), "nan": float("nan"), "inf": -np.inf, "x": tf.constant(2)}
    )
    writer.close()
    assert lines(tmp_path) == [{"env_frames": 40, "loss": 0.25, "nan": None, "inf": None, "x": 2.0}]


def test_lines_can_be_read_while_the_run_goes_on_and_a_resumed_run_appends(tmp_path):
    first = MetricsWriter(str(tmp_path))
    first.write({"env_frames": 1})
    assert lines(tmp_path) == [{"env_frames": 1}]
    first.close()
    second = MetricsWriter(str(tmp_path))
    second.write({"env_frames": 2})
    second.close()
    assert lines(tmp_path) == [{"env_frames": 1}, {"env_frames": 2}]


def test_no_file_stays_open_for_long(tmp_path, monkeypatch):
    """A bucket that is mounted as a directory keeps only what is in files that were closed."""
    writer = MetricsWriter(str(tmp_path))
    writer.write({"env_frames": 1, "loss": 1.0})
    path = tmp_path / "metrics.jsonl"
    path.rename(tmp_path / "closed")
    monkeypatch.setattr(metrics, "_EVENTS_FILE_SECS", 0.0)
    writer.write({"env_frames": 2, "loss": 2.0})
    assert lines(tmp_path) == [{"env_frames": 2, "loss": 2.0}]
    writer.close()
    files = sorted((tmp_path / "tensorboard").glob("events*"))
    found = [
        [event.step for event in tf.compat.v1.train.summary_iterator(str(file)) if event.summary.value]
        for file in files
    ]
    assert sorted(found) == [[1], [2]]


def test_tensorboard_has_the_curves_over_environment_frames(tmp_path):
    writer = MetricsWriter(str(tmp_path))
    writer.write({"env_frames": 40, "loss": 0.25, "entropy": float("nan")})
    writer.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    found = {
        value.tag: (event.step, tf.make_ndarray(value.tensor))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert found == {"loss": (40, pytest.approx(0.25))}


def test_tensorboard_has_the_settings_as_text_and_as_hyperparameters(tmp_path):
    settings = {"agent": {"lambda_": 0.5, "limit": None, "lstm": True}, "seed": 3}
    MetricsWriter(str(tmp_path), settings).close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    values = {
        value.tag: value
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    text = tf.make_ndarray(
        values["settings/text_summary" if "settings/text_summary" in values else "settings"].tensor
    )
    assert '"lambda_": 0.5' in str(text)
    content = plugin_data_pb2.HParamsPluginData.FromString(
        values["_hparams_/session_start_info"].metadata.plugin_data.content
    )
    found = content.session_start_info.hparams
    assert found["agent/lambda_"].number_value == 0.5
    assert found["agent/limit"].string_value == "None"
    assert found["agent/lstm"].bool_value is True
    assert found["seed"].number_value == 3


def test_weights_and_biases_has_the_figures_and_a_resumed_run_is_the_same_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for frames in (1, 2):
        writer = MetricsWriter(str(tmp_path), {"seed": 3}, "seed_rl_test")
        writer.write({"env_frames": frames, "loss": 0.5, "nothing": float("nan")})
        writer.close()
    sessions = sorted(path for path in (tmp_path / "wandb").iterdir() if path.name.startswith("offline-run"))
    ids = {path.name.rpartition("-")[2] for path in sessions}
    assert len(ids) == 1
    written = [path for session in sessions for path in session.glob("*.wandb")]
    assert written
    assert all(b"loss" in path.read_bytes() for path in written)
