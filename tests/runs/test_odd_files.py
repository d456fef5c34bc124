"""Files of a run directory may hold anything: what cannot be used is refused or left out."""

import copy
import json

import pytest

from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.metrics.bottlenecks import report
from seed_rl.metrics.curves import curve, final_return, periods_so_far, read_periods
from seed_rl.metrics.idle_time import INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, TRAINING_FOR_BATCH
from seed_rl.plotting.picture import draw_runs
from seed_rl.runs import record

IDENTITY = record.run_identity("catch", CatchConfig(), "vtrace", VTraceConfig())
SETTINGS = {"learner": LearnerConfig().to_dict(), "agent": VTraceConfig().to_dict()}
WAITS = (INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, TRAINING_FOR_BATCH)


def period(number):
    figures = {"env_frames": 100 * number, "seconds": 1.0 * number, "updates": number, "mean_return": 0.5}
    return figures | {"frames_per_second": 100.0} | dict.fromkeys(WAITS, 0.25)


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


ODD = {
    "null": None,
    "true": True,
    "number": 3.5,
    "negative": -1,
    "zero": 0,
    "huge": 10**400,
    "nan": float("nan"),
    "infinity": float("inf"),
    "text": "x\x1b[31m\n",
    "surrogate": "\ud800",
    "list": [],
    "object": {},
    "nested": nested(40),
    "deep": nested(900),
}


def places(value, path=()):
    """Paths of the values in a nested value, its own included."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))


def changed(content, path, value):
    if not path:
        return value
    content = copy.deepcopy(content)
    item = content
    for key in path[:-1]:
        item = item[key]
    item[path[-1]] = value
    return content


@pytest.fixture
def logdir(tmp_path):
    record.write(str(tmp_path), IDENTITY, SETTINGS)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(period(n)) + "\n" for n in range(1, 6)))
    return tmp_path


def use(logdir, draw=True):
    """Whatever reads a run directory, as far as it needs no checkpoint; a ValueError is a refusal."""
    run = record.read(str(logdir))
    run.environment_config()
    run.agent_config()
    report(run.logdir, {**run.learner_settings, **run.agent_settings}, periods_so_far(run.logdir))
    if draw:
        draw_runs([logdir], logdir / "x.png")


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_in_a_record(logdir, odd):
    content = json.loads((logdir / "run.json").read_text())
    paths = list(places(content))
    assert len(paths) > 100
    refused = 0
    for path in paths:
        (logdir / "run.json").write_text(json.dumps(changed(content, path, ODD[odd])))
        for read in (lambda: use(logdir, draw=False), lambda: record.check(str(logdir), IDENTITY)):
            try:
                read()
            except ValueError:
                refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"3", b"{}", b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"{}{}", b"\0"),
        *(b"[" * 3000, b'{"identity":' * 3000, b"1" * 5000),
    ],
)
def test_odd_records(logdir, content):
    (logdir / "run.json").write_bytes(content)
    for read in (lambda: record.read(str(logdir)), lambda: record.check(str(logdir), IDENTITY)):
        with pytest.raises(ValueError, match=r"run\.json cannot be read") as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_in_metrics(logdir, odd):
    lines = (logdir / "metrics.jsonl").read_text()
    for name in (*period(1), "more"):
        odd_line = json.dumps(changed(period(6), (name,), ODD[odd])) + "\n"
        (logdir / "metrics.jsonl").write_text(lines + odd_line + json.dumps(ODD[odd]) + "\n")
        use(logdir, draw=name == "mean_return")
        periods = read_periods(logdir, warn=lambda text: None)
        assert len(periods) >= 5 or name == "env_frames"  # As if the run had gone back.
        assert len(curve(periods, name).value) <= 6
        assert final_return(periods) is not None


def test_many_odd_lines_are_one_short_warning(logdir):
    with open(logdir / "metrics.jsonl", "a") as file:
        file.write("[" * 3000 + "\n" + "\x1b[31m\n" * 3000 + "x" * 10**6 + "\n")
    said = []
    assert len(read_periods(logdir, warn=said.append)) == 5
    assert len(said) == 1 and len(said[0]) < 300 and said[0].isprintable()


def test_names_in_a_record_are_drawn_as_they_are(logdir):
    """Matplotlib takes dollar signs for mathematics."""
    content = json.loads((logdir / "run.json").read_text())
    content["identity"]["agent"]["name"] = "$\\frac{^$ _x"
    content["identity"]["environment"] = {"name": "other", "settings": {"game": "$a^{$ \\x"}}
    (logdir / "run.json").write_text(json.dumps(content))
    draw_runs([logdir], logdir / "x.png")
    assert (logdir / "x.png").stat().st_size > 1000
