import os

import numpy as np
import pytest

from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.suites.catch import SUITE, CatchConfig
from seed_rl.evaluation.agent import PlayedEpisode
from seed_rl.evaluation.video import Rerun, RerunError, caption, write_video

imageio = pytest.importorskip("imageio.v2")
EPISODE = PlayedEpisode(0, 3, [0] * 9, -1.0)


FORKS = []  # Starting another program needs none.
os.register_at_fork(before=lambda: FORKS.append(1))


def rerun(**settings):
    return Rerun(SUITE, CatchConfig(**settings), EPISODE, FailureConfig())


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_a_video_has_every_scene_under_its_caption(tmp_path, ending):
    path, forks = tmp_path / f"catch.{ending}", len(FORKS)
    write_video(path, [("best", rerun()), ("typical", rerun())])
    assert len(FORKS) == forks
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    frames = [np.asarray(frame)[..., :3] for frame in imageio.mimread(path)]
    # 10 scenes and a pause of a second at 10 scenes/s, twice; a GIF joins equal pictures.
    assert len(frames) == (40 if ending == "mp4" else 20)
    board = next(iter(rerun())).picture
    strip = frames[0].shape[0] - board.shape[0]
    assert frames[0].shape[1] == board.shape[1]
    assert strip >= 16
    np.testing.assert_allclose(
        frames[0][strip + 2 : -2, 2:-2].astype(int), board[2:-2, 2:-2].astype(int), atol=60
    )
    assert frames[0][:strip].max() > 150  # Something is written there.


def test_odd_sides_become_even_and_long_captions_fit():
    picture = np.full((211, 161, 3), 7, np.uint8)
    found = caption(picture, "typical: -1234.5 at agent step 27000")
    assert found.shape == (228, 162, 3)
    np.testing.assert_array_equal(found[16:227, :161], picture)
    assert found[:16, -2:].max() == 0  # The text ends before the edge.


def test_a_video_that_fails_leaves_nothing(tmp_path):
    broken = rerun()
    broken._episode = broken._episode._replace(actions=[0, 0, "left"])
    with pytest.raises(RerunError):
        write_video(tmp_path / "catch.gif", [("best", broken)])
    assert list(tmp_path.iterdir()) == []
