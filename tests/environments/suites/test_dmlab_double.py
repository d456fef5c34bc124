"""Each call that the engine refuses is refused by its double; else the tests on it would show nothing."""

from pathlib import Path

import numpy as np
import pytest

from tests.environments.suites import dmlab_double

NOOP = np.zeros(7, np.intc)
LEVEL = dmlab_double.PREFIX + "rooms_watermaze"


@pytest.fixture
def engine():
    """The double in the place of the module deepmind_lab."""
    with dmlab_double.installed() as module:
        yield module


@pytest.fixture
def lab(engine):
    """A running engine without the adapter."""
    lab = engine.Lab(
        dmlab_double.PREFIX + "rooms_watermaze", ["RGB_INTERLEAVED"], {"width": "8", "height": "8"}
    )
    lab.reset(seed=0)
    return lab


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((LEVEL, None), TypeError, "observations must be list"),
        ((LEVEL, ("RGB_INTERLEAVED",)), TypeError, "observations must be list, not tuple"),
        ((LEVEL, ["RGB"]), ValueError, "Unknown observation 'RGB'"),
        ((LEVEL, [], ["width"]), TypeError, "config must be dict"),
        ((LEVEL, [], {"width": 96}), TypeError, "bad argument type"),
        ((LEVEL, [], {96: "width"}), TypeError, "bad argument type"),
        ((LEVEL, [], {"allowHoldOutLevels": True}), TypeError, "bad argument type"),
        ((LEVEL, [], {"width": "98"}), RuntimeError, "multiples of 4"),
        ((LEVEL, [], {"height": "71"}), RuntimeError, "multiples of 4"),
        ((LEVEL, [], {"mixer_seed": "0"}), RuntimeError, "no level here has"),
        ((LEVEL, [], {}, "opengl"), RuntimeError, "renderer"),
        (("rooms_watermaze", []), RuntimeError, "Invalid levelName"),
        ((LEVEL + "_test", []), RuntimeError, "Invalid levelName"),
        ((b"rooms_watermaze", []), TypeError, "level must be str"),
        ((dmlab_double.PREFIX + "rooms_collect_good_objects_test", []), RuntimeError, "held out"),
    ],
)
def test_constructor(engine, arguments, error, message):
    with pytest.raises(error, match=message):
        engine.Lab(*arguments)


def test_defaults(engine):
    lab = engine.Lab(LEVEL, ["RGB_INTERLEAVED"])
    assert lab.observation_spec()[0] == {
        "name": "RGB_INTERLEAVED",
        "shape": (240, 320, 3),
        "dtype": np.uint8,
    }
    assert lab.fps() == 60


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0] * 7,), TypeError, "must be numpy.ndarray, not list"),
        ((NOOP, 4.0), TypeError, "integer"),
        ((NOOP, 0), ValueError, "num_steps"),
        ((np.zeros(6, np.intc),), ValueError, "shape"),
        ((np.zeros((1, 7), np.intc),), ValueError, "shape"),
        ((np.zeros(7, np.int64),), ValueError, "intc"),
        ((np.zeros(7, np.float32),), ValueError, "intc"),
        ((np.full(7, 2, np.intc),), ValueError, "STRAFE_LEFT_RIGHT must be -1 to 1"),
    ],
)
def test_step(lab, arguments, error, message):
    with pytest.raises(error, match=message):
        lab.step(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"seed": np.int64(3)}, ValueError),
        ({"seed": "3"}, ValueError),
        ({"seed": 2**31}, OverflowError),
        ({"episode": 1.0}, TypeError),
    ],
)
def test_reset(lab, arguments, error):
    with pytest.raises(error):
        lab.reset(**arguments)


def test_before_the_reset_and_after_the_end_nothing_can_be_seen(engine):
    lab = engine.Lab(LEVEL, ["RGB_INTERLEAVED", "INSTR", "VEL.TRANS", "VEL.ROT"])
    for _ in range(2):
        assert not lab.is_running()
        with pytest.raises(RuntimeError, match="observations"):
            lab.observations()
        with pytest.raises(RuntimeError, match="advance"):
            lab.step(NOOP)
        lab.reset(seed=1)
        assert lab.is_running()
        assert lab.num_steps() == 0
        assert set(lab.observations()) == {"RGB_INTERLEAVED", "INSTR", "VEL.TRANS", "VEL.ROT"}
        assert lab.events() == []
        lab.step(NOOP, num_steps=1000)
        assert lab.num_steps() == 1000


def test_observations_are_fresh_copies(lab):
    first, second = (lab.observations()["RGB_INTERLEAVED"] for _ in range(2))
    first[:] = 0
    assert second.any()
    np.testing.assert_array_equal(lab.observations()["RGB_INTERLEAVED"], second)


def test_a_closed_engine_can_do_nothing(lab):
    assert lab.close() is True
    assert lab.close() is False
    assert not lab.is_running()
    calls = (
        lab.reset,
        lab.observations,
        lab.num_steps,
        lab.events,
        lab.action_spec,
        lab.observation_spec,
    )
    for call in (*calls, lab.fps, lambda: lab.step(NOOP)):
        with pytest.raises(RuntimeError):
            call()


def test_seeds_and_episodes_make_the_game(lab):
    def start(**arguments):
        lab.reset(**arguments)
        return lab.observations()["RGB_INTERLEAVED"].tobytes()

    assert start(episode=0, seed=5) == start(episode=0, seed=5)
    assert len({start(episode=0, seed=seed) for seed in range(5)}) == 5
    assert len({start(episode=episode, seed=5) for episode in range(5)}) == 5
    lab.reset(episode=7, seed=1)
    lab.reset(seed=1)
    assert lab.resets[-1] == (8, 1)
    assert len({start() for _ in range(5)}) > 1


def test_errors_of_the_level_cache_come_out_of_reset(engine):
    class NoWrite:
        def fetch(self, key, pk3_path):
            return False

    class Wrong(NoWrite):
        def fetch(self, key, pk3_path):
            Path(pk3_path).write_bytes(b"not the level")
            return True

    for cache, error in (
        (NoWrite(), AttributeError),
        (Wrong(), RuntimeError),
        (object(), AttributeError),
    ):
        with pytest.raises(error):
            engine.Lab(LEVEL, [], level_cache=cache).reset(seed=0)
    assert engine.Lab(LEVEL, [], level_cache=None).reset(seed=0)
