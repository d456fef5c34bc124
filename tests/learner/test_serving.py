"""End of a learner's inference: in bounded time, and with the error of a thread that died."""

import itertools
import threading
from unittest import mock

import pytest

from seed_rl.environments.specs import environment_spec
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.learner import serving
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.serving import Lockstep, Serving
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.request import Request, ServedGroup
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


NUM_ENVS = 4


class FakeBatcher:
    """Gives out the batches that a test puts into `batches`."""

    def __init__(self):
        self.batches, self.gone = [], set()

    def next_batch(self, timeout_secs):
        return self.batches.pop(0)

    def is_connected(self, client):
        return client not in self.gone


@pytest.fixture
def run():
    """Takes batches of (client, first environment, number of environments); returns what was answered."""
    batcher, core, keys = FakeBatcher(), mock.MagicMock(), itertools.count()
    core.answer.return_value = []
    experience = mock.Mock(batch_ready=lambda: False)
    lockstep = Lockstep(core, batcher, None, experience, NUM_ENVS, None)

    def request(client, first_env, num_envs):
        group = ServedGroup(next(keys), client, first_env, num_envs, is_restart=False)
        return client, Request(group, b"", 0.0)

    def run(*batches, ended=()):
        batcher.gone |= set(ended)
        batcher.batches = [[request(*entry) for entry in batch] for batch in batches]
        core.answer.reset_mock()
        assert [lockstep.next(0.0) for _ in batches] == [None] * len(batches)
        return [[client for client, _ in call.args[0]] for call in core.answer.call_args_list]

    return run


@pytest.mark.parametrize(
    "steps",
    [
        # All environments act together in the order of their ids.
        [([[(1, 2, 2)], [(2, 0, 2)]], (), [[2, 1]]), ([[(3, 2, 2), (4, 0, 2)]], (), [[4, 3]])],
        # An actor of two groups, whose other group never came, is replaced by one of one.
        [([[(1, 2, 2)]], (), []), ([[(2, 0, 4)]], (), [[2]])],
        [([[(1, 2, 2)]], (), []), ([[(2, 0, 4)]], (1,), [[2]])],
        # An actor of one group is replaced by one of two.
        [([[(1, 0, 3)]], (), []), ([[(2, 1, 2)], [(3, 3, 1)]], (), []), ([[(4, 0, 1)]], (), [[4, 2, 3]])],
        # A stream that has ended is not acted for.
        [([[(1, 0, 2)]], (), []), ([[(2, 2, 2)]], (1,), []), ([[(3, 0, 2)]], (), [[3, 2]])],
    ],
)
def test_a_synchronous_run_acts_for_all_environments_at_once(run, steps):
    for batches, ended, answered in steps:
        assert run(*batches, ended=ended) == answered
