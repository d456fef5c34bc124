"""Reading of the others' logs by the comparison; the others themselves are not installed in tests."""

import sys

import pytest

from benchmarks import rivals
from seed_rl.flags.errors import UsageError

LOG = """
[2026-11-27 03:42:42,000][17405] Fps is (10 sec: 1228.8). Total num frames: 1000. Throughput: 0: 182.8.
[2026-11-27 03:42:44,000] Total num frames: 9000
[2026-11-27 03:42:48,000] Total num frames: 25000
"""


def test_frames_per_second_are_those_of_the_last_seconds():
    assert rivals.frames_per_second(LOG, 60) == 4000
    assert (
        rivals.frames_per_second(LOG.replace("Total num frames: 9000", "Total num frames: 13000"), 4) == 3000
    )
    with pytest.raises(RuntimeError, match="The log has no frames in 1 s"):
        rivals.frames_per_second(LOG, 1)


def test_what_is_missing_comes_with_what_installs_it(tmp_path):
    with pytest.raises(UsageError, match=r"CleanRL is not in .*; run tools/install_rivals.sh"):
        rivals.main(["rivals", f"--directory={tmp_path}"])


def test_a_rival_that_fails_is_an_error_with_its_log(tmp_path):
    python = tmp_path / "cleanrl" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{sys.executable} -c 'raise SystemExit(\"no EnvPool\")'\n")
    python.chmod(0o755)
    config = rivals.RivalsConfig(directory=str(tmp_path))
    with pytest.raises(RuntimeError, match="CleanRL ended before first frames: \nno EnvPool"):
        rivals.run_rival(rivals.RIVALS[0], config)
