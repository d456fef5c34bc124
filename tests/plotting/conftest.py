import pytest

from tests.plotting.synthetic import write_run


@pytest.fixture(scope="session")
def two_sweeps(tmp_path_factory):
    """Two variants of V-trace, of which each is searched on two games, with two seeds of each combination."""
    path = tmp_path_factory.mktemp("sweeps")
    for torso, count in (("nature", 2), ("shallow", 3)):
        for game in ("Pong", "Breakout"):
            for i in range(count):
                end = {"highest": 10.0 * (i + 1), "lowest": 0.0, "periods": 20, "frames": 1_000_000 * (i + 1)}
                for seed in (1, 2):
                    trial = path / torso / game / f"trial_{i:03}"
                    rate = {"learning_rate": 1e-4 * (i + 1)}
                    write_run(trial / f"seed_{seed}", game, seed=seed, learner=rate, torso=torso, **end)
            (path / torso / game / "journal.log").write_text("")
    return path
