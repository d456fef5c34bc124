import json

import numpy as np
import pytest
import tensorflow as tf

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
