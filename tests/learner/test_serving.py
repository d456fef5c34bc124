"""End of a learner's inference: in bounded time, and with the error of a thread that died."""

import contextlib
import threading
from unittest import mock

import pytest

from seed_rl.environments.specs import environment_spec
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.experience.base import ClosedError
from seed_rl.learner import serving
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.serving import Serving
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security


class Core:
    """Serves until the batcher is closed; `after` is what it does then."""

    num_eval_envs = 0

    def __init__(self, after):
        self._after = after

    def serve(self, batcher, deliver):
        while batcher.next_batch() is not None:
            pass
        self._after()


@pytest.fixture
def start(tmp_path):
    identity = EnvironmentDescription(
        "catch", CatchConfig().to_dict(), environment_spec(SUITE.make(CatchConfig(), 0), CatchConfig())
    )

    def start_inference(after):
        config = LearnerConfig(server_address=f"unix:{tmp_path}/s", num_envs=4, num_inference_threads=1)
        return Serving(
            config, identity, [Core(after)], RunMetrics(1, 0, 0.0, 0, 4, evaluation_window=20), Security()
        )

    return start_inference


@pytest.mark.parametrize("error", [RuntimeError("late"), ClosedError()])
def test_an_error_between_the_last_look_and_the_stop_is_kept_unless_all_is_closed(start, error):
    running = start(mock.Mock(side_effect=error))
    running.raise_error()
    running.stop("", mock.Mock())
    with pytest.raises(RuntimeError, match="late") if str(error) else contextlib.nullcontext():
        running.raise_error()


def test_what_does_not_stop_is_named(start, monkeypatch, caplog):
    unlock = threading.Event()
    stop = InferenceServer.stop

    def stop_late(server, reason):
        unlock.wait()
        stop(server, reason)

    monkeypatch.setattr(serving, "_STOP_SECS", 0.05)
    monkeypatch.setattr(InferenceServer, "stop", stop_late)
    running = start(unlock.wait)
    before = set(threading.enumerate())
    running.stop("", mock.Mock())
    assert [record.getMessage().split(" did not")[0] for record in caplog.records] == [
        "seed_rl: inference-0",
        "seed_rl: the server",
    ]
    late = [t for t in threading.enumerate() if t not in before or t.name == "inference-0"]
    unlock.set()
    for thread in late:
        thread.join(60.0)
        assert not thread.is_alive()


def test_an_error_of_the_server_is_kept_too(start, monkeypatch):
    running = start(lambda: None)
    stop = InferenceServer.stop

    def stop_badly(server, reason):
        stop(server, reason)
        raise RuntimeError("bad end")

    monkeypatch.setattr(InferenceServer, "stop", stop_badly)
    running.stop("", mock.Mock())
    with pytest.raises(RuntimeError, match="bad end"):
        running.raise_error()
