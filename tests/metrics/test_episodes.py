import math
from types import MappingProxyType

import numpy as np
import pytest

from seed_rl.metrics.episodes import OwnMetrics, means, of_info

NAME, NUMBER = "has no name of 1 to 64 printable characters", "'wins' is not a finite number"
# (info, the metrics that are kept, words of the warning).
INFOS = {
    "nothing": ({}, {}, ""),
    "other entries": ({"score_reward": 1, "lives": [1, 2], "episode": {"r": 1.0}}, {}, ""),
    "a bool": ({"is_success": True}, {"is_success": 1.0}, ""),
    "a bool of NumPy": ({"is_success": np.bool_(False)}, {"is_success": 0.0}, ""),
    "none": ({"is_success": None, "metrics": None}, {}, ""),
    "metrics": ({"metrics": {"wins": 3, "time": np.float32(0.5)}}, {"wins": 3.0, "time": 0.5}, ""),
    "arrays of one": ({"metrics": {"a": np.array(2), "b": np.array([3.0])}}, {"a": 2.0, "b": 3.0}, ""),
    "another mapping": ({"metrics": MappingProxyType({"wins": 3})}, {"wins": 3.0}, ""),
    "NaN": ({"metrics": {"wins": math.nan, "ok": 1}}, {"ok": 1.0}, NUMBER),
    "infinite": ({"is_success": math.inf}, {}, "'is_success' is not a finite number"),
    **{
        f"{value!r}"[:20]: ({"metrics": {"wins": value}}, {}, NUMBER)
        for value in ("3", {"a": 1}, np.zeros(3), 1j, 10**400)
    },
    "no mapping": ({"metrics": [1, 2]}, {}, "'metrics' is not a finite number"),
    "no name": ({"metrics": {"": 1}}, {}, NAME),
    "a long name": ({"metrics": {"x" * 65: 1}}, {}, NAME),
    "a name that is not text": ({"metrics": {7: 1}}, {"7": 1.0}, ""),
    "too many": (
        {"metrics": {str(i): i for i in range(1000)}},
        {str(i): float(i) for i in range(32)},
        "'32' would be one more than the 32 that a run can have",
    ),
}


@pytest.mark.parametrize(("info", "kept", "words"), INFOS.values(), ids=INFOS)
def test_valid_metrics_are_kept_and_the_first_other_one_is_reported(info, kept, words, capsys):
    own = OwnMetrics()
    for _ in range(3):
        assert own.keep(of_info(info)) == kept
    said = capsys.readouterr().err
    assert (words in said and said.count("\n") == 1) if words else not said


def test_a_name_cannot_control_a_terminal():
    (name,) = OwnMetrics().keep(of_info({"metrics": {"a\x1b[2J\n\ud800": 1}}))
    assert name.isprintable()


def test_means_are_over_the_episodes_that_have_a_metric():
    assert means([{"a": 1.0}, {"a": 3.0, "b": 5.0}, {}], "episode/") == {"episode/a": 2.0, "episode/b": 5.0}
