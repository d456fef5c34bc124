"""The live page of a run, as a browser sees it."""

import base64
import contextlib
import http.client
import json
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from seed_rl.metrics.curves import read_periods
from seed_rl.runs.layout import RunDirectory
from seed_rl.serving.live import Live
from seed_rl.types import ACTION_MASK, AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.security import Security, WebConfig
from tests.actor.counting import SPEC, Learner, Player
from tests.plotting.synthetic import write_run
from tests.waiting import wait_until

DEADLINE_SECS = 30.0
TOKEN = "0123456789abcdef"
IMAGE = ArraySpec((4, 6), "uint8", (0.0,), (255.0,))
PLANES = ArraySpec.packed((3, 4, 2))
MASKED = {ACTION_MASK: ArraySpec((3,), "bool"), "vector": ArraySpec((2,), "float32")}
ACTION = ArraySpec((), "int64", (0.0,), (2.0,))
# Metrics of a run in which training waits for inference.
ACTING = {"inference_waiting_share": 0.05, "inference_blocked_share": 0.0, "training_waiting_share": 0.6}
ACTING |= {"updates": 1, "frames_per_second": 1.0}


def make_live(spec=SPEC, logdir="none", **options):
    return Live({"title": "a run"}, spec, logdir, {}, num_training_envs=3, **options)


@pytest.fixture
def serve(tmp_path):
    """Starts learners with a page and 4 environments; gives them."""
    with contextlib.ExitStack() as stack:

        def start(live, **options):
            web = WebConfig("127.0.0.1:0")
            learner = Learner(f"unix:{tmp_path}/s", 4, live=live, web=web, **options)
            stack.callback(learner.stop)
            return learner

        yield start


@pytest.fixture
def play(tmp_path):
    """Starts an actor of the learner's 4 environments."""
    return lambda: Player(f"unix:{tmp_path}/s")


@contextlib.contextmanager
def opened(learner, *offered, path="/live", **options):
    url = f"ws://127.0.0.1:{learner.server.web_port}{path}"
    with connect(url, subprotocols=["seed_rl", *offered], proxy=None, **options) as page:
        page.said = {}
        yield page


def heard(page, key, holds=bool):
    """The newest that frames say of a key, once it holds."""
    deadline = time.monotonic() + DEADLINE_SECS
    while not (key in page.said and holds(page.said[key])):
        assert time.monotonic() < deadline, page.said.get(key)
        page.said |= json.loads(page.recv(DEADLINE_SECS))
    return page.said[key]


def end_of(socket):
    """The status of a page's end, and its sentence."""
    last = ""
    with pytest.raises(ConnectionClosed):
        while True:
            last = socket.recv(DEADLINE_SECS)
    end = json.loads(last)
    return end["code"], end["message"]


def records(spec, rewards, done=False, truncated=False, **leaves):
    found = np.zeros(len(rewards), StepCodec(spec).record)
    found["reward"], found["done"], found["truncated"] = rewards, done, truncated
    for name, values in leaves.items():
        found[f"observation:{name}"] = values
    return found


def answers(count, **info):
    return AgentOutput(np.zeros(count, np.int64), {name: np.array(x) for name, x in info.items()})


def test_the_page_is_at_the_address_and_loads_nothing_from_elsewhere(serve):
    learner = serve(make_live())
    client = http.client.HTTPConnection("127.0.0.1", learner.server.web_port, timeout=DEADLINE_SECS)
    client.request("GET", "/")
    response = client.getresponse()
    assert response.status == 200 and b"/live" in response.read()
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    client = http.client.HTTPConnection("127.0.0.1", learner.server.web_port, timeout=DEADLINE_SECS)
    client.request("GET", "/elsewhere")
    assert client.getresponse().status == 426


def test_a_page_shows_the_metrics_and_the_bottleneck(serve, tmp_path):
    run = write_run(tmp_path / "run", periods=700)
    with opened(serve(make_live(logdir=run))) as page:
        assert heard(page, "hello")["title"] == "a run"
        curves = heard(page, "curves")
        periods = read_periods(run)
        assert curves["series"]["mean_return"][-1] == periods[-1]["mean_return"]
        assert 200 < len(curves["env_frames"]) <= 300
        for period in read_periods(run)[-5:]:
            later = {name: period[name] + 10**9 for name in ("seconds", "env_frames")}
            with open(RunDirectory(run).metrics, "a") as metrics:
                metrics.write(json.dumps(period | ACTING | later) + "\n")
        heard(page, "findings", lambda findings: findings and "Inference bounds" in findings[0])
        assert next(stage for stage in heard(page, "stages") if stage["name"] == "training")["waits"] == 0.6


def test_a_page_shows_the_actors_that_are_connected(serve, play):
    learner = serve(make_live())
    with opened(learner) as page:
        assert heard(page, "actors", lambda actors: not actors) == []
        play()
        (found,) = heard(page, "actors", lambda actors: actors and actors[0]["agent_steps_per_second"])
        assert found["envs"] == [0, 4] and found["state"] == "plays" and found["restarts"] == 0
        assert 0 <= found["seen_secs"] < DEADLINE_SECS


# The spec, an observation, the policy's figures, and what a cell has of them.
KINDS = {
    "picture": (
        EnvironmentSpec(IMAGE, ACTION),
        {"": np.arange(24).reshape(4, 6)},
        {"policy_parameters": [[0.0, 0.0, np.log(2.0)]], "baseline": [1.5]},
        {"scores": [0.25, 0.25, 0.5], "kind": "probabilities", "value": 1.5, "bars": None},
    ),
    "planes of bools": (
        EnvironmentSpec(PLANES, ACTION),
        {"": np.packbits(np.eye(3, 4, dtype=bool)[..., np.newaxis] * [True, False])},
        {"q_values": [[1.0, 3.0, 2.0]]},
        {"scores": [1.0, 3.0, 2.0], "kind": "Q-values", "value": 3.0, "bars": None},
    ),
    "planes that come first": (
        EnvironmentSpec(ArraySpec((2, 5, 6), "float32"), ACTION),
        {"": np.arange(60).reshape(2, 5, 6)},
        {},
        {"scores": None, "kind": None, "value": None, "bars": None},
    ),
    "numbers": (
        EnvironmentSpec(MASKED, ACTION),
        {ACTION_MASK: [True, False, True], "vector": [0.5, -2.0]},
        {"q_values": [[1.0, 3.0, 2.0]]},
        {"bars": [0.5, -2.0], "mask": [True, False, True], "value": 2.0, "image": None},
    ),
    "no discrete action": (
        EnvironmentSpec(ArraySpec((50,), "float32"), ArraySpec((2,), "float32")),
        {"": np.ones(50)},
        {"policy_parameters": [[0.0] * 4], "baseline": [0.5]},
        {"bars": [1.0] * 32, "scores": None, "kind": None, "value": 0.5},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_shows_environments_as_inference_sees_them(serve, play, kind):
    spec, leaves, info, wanted = KINDS[kind]
    live = make_live(spec)
    with opened(serve(live)) as page:
        play()
        heard(page, "actors", bool)
        live.see(np.array([2]), records(spec, [9.0], done=True, **leaves), answers(1, **info))
        live.see(np.array([2]), records(spec, [0.5], **leaves), answers(1, **info))
        (cell,) = heard(page, "cells", lambda cells: cells and cells[0]["agent_steps"])
        assert (cell["env"], cell["evaluates"], cell["player"]) == (2, False, None)
        assert (cell["return"], cell["agent_steps"]) == (0.5, 1)
        assert wanted.items() <= {name: rounded(value) for name, value in cell.items()}.items()
        if kind == "picture":
            data = base64.b64decode(cell["image"]["data"])
            assert (cell["image"]["height"], cell["image"]["width"], cell["image"]["channels"]) == (4, 6, 1)
            assert list(data) == list(range(24))
        if kind == "planes that come first":
            assert (cell["image"]["height"], cell["image"]["width"], cell["image"]["channels"]) == (5, 6, 3)
        if kind == "planes of bools":
            colours = np.frombuffer(base64.b64decode(cell["image"]["data"]), np.uint8).reshape(3, 4, 3)
            np.testing.assert_array_equal(colours.any(-1), np.eye(3, 4))


def rounded(value):
    return [rounded(x) for x in value] if isinstance(value, list) else pytest.approx(value)


def test_players_that_are_not_to_move_are_not_shown(serve, play):
    spec = EnvironmentSpec(IMAGE, ACTION, num_players=2)
    live = make_live(spec)
    with opened(serve(live)) as page:
        play()
        heard(page, "actors", bool)
        both = records(spec, [1.0, 0.0], done=[True, True], truncated=[False, True])
        live.see(np.array([2, 3]), both, answers(2))
        (cell,) = heard(page, "cells", bool)
        assert (cell["env"], cell["player"], cell["agent_steps"]) == (2, 0, 0)


def test_nothing_is_kept_while_no_page_is_open(serve, play):
    spec = EnvironmentSpec(IMAGE, ACTION)
    live, one = make_live(spec), (np.array([2]), records(spec, [0.0]), answers(1))
    learner = serve(live)
    play()
    live.see(*one)
    with opened(learner) as page:
        heard(page, "actors", bool)
        assert heard(page, "cells", lambda cells: not cells) == []
        live.see(*one)
        heard(page, "cells", bool)
    wait_until(lambda: not len(live._is_shown), "the page has closed", DEADLINE_SECS)
    live.see(*one)
    assert not live._cells


@pytest.mark.parametrize("order", [b"{}", "no JSON", "[]", '{"plays": true}', '{"action": 1}', "9" * 9000])
def test_a_page_that_sends_what_it_should_not_ends_alone(serve, play, order):
    learner = serve(make_live())
    player = play()
    with opened(learner) as other, opened(learner) as page:
        page.send(order)
        code, sentence = end_of(page)
        assert code == "INVALID_ARGUMENT" and sentence.endswith(".")
        heard(other, "actors", bool)
    assert player.is_alive()


def test_a_page_needs_the_token(serve):
    learner = serve(make_live(), security=Security(token=TOKEN))
    with opened(learner) as page:
        assert end_of(page)[0] == "UNAUTHENTICATED"
    encoded = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    with opened(learner, f"token.{encoded}") as page:
        heard(page, "hello")


def test_a_fault_in_what_is_shown_ends_pages_and_nothing_else(serve, play):
    live = make_live(EnvironmentSpec(IMAGE, ACTION))
    learner = serve(live)
    player = play()
    with opened(learner) as page:
        heard(page, "actors", bool)
        wrong = AgentOutput(np.zeros(1, np.int64), {"policy_parameters": np.array([["wrong"]])})
        live.see(np.array([2]), records(EnvironmentSpec(IMAGE, ACTION), [0.0]), wrong)
        code, sentence = end_of(page)
        assert code == "INTERNAL" and "log" in sentence
    assert player.is_alive()


def test_there_is_a_limit_on_pages(serve):
    learner = serve(make_live())
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            heard(stack.enter_context(opened(learner)), "hello")
        with opened(learner) as page:
            assert end_of(page)[0] == "RESOURCE_EXHAUSTED"


def test_a_page_that_does_not_read_holds_nothing_up(serve, play):
    spec = EnvironmentSpec(ArraySpec((160, 160, 3), "uint8"), ACTION)
    live = make_live(spec, period_secs=0.001)
    learner = serve(live)
    player = play()
    with opened(learner, max_queue=1) as slow, opened(learner) as page:
        heard(page, "actors", bool)
        for i in range(100):
            picture = np.full((1, 160, 160, 3), i % 2 * 255, np.uint8)
            live.see(np.array([2]), records(spec, [0.0], done=not i, **{"": picture}), answers(1))
            heard(page, "cells", lambda cells, i=i: cells and cells[0]["agent_steps"] == i)
        assert player.is_alive()
        begin = time.monotonic()
        learner.stop("The learner was stopped.")
        assert time.monotonic() - begin < 10
        slow.socket.close()


@pytest.mark.parametrize("reason, code", [("", "OK"), ("The learner was stopped.", "UNAVAILABLE")])
def test_a_page_ends_with_the_run_after_the_last_metrics(serve, tmp_path, reason, code):
    run = write_run(tmp_path / "run")
    learner = serve(make_live(logdir=run))
    with opened(learner) as page:
        heard(page, "curves")
        (last,) = read_periods(run)[-1:]
        with open(RunDirectory(run).metrics, "a") as metrics:
            metrics.write(json.dumps(last | {"env_frames": last["env_frames"] + 1}) + "\n")
        learner.stop(reason)
        heard(page, "curves", lambda curves: curves["env_frames"][-1] == last["env_frames"] + 1)
        assert end_of(page) == (code, reason)
