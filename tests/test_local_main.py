"""The launcher's main as a process. Whole runs are in tests/learner."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def local_main(cwd, *args):
    return subprocess.run(
        [sys.executable, "-m", "seed_rl.local_main", *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        capture_output=True,
        text=True,
    )


def test_help_lists_launcher_learner_actor_environment_and_agent(tmp_path):
    done = local_main(tmp_path, "catch", "vtrace", "--helpfull")
    assert (done.returncode, done.stderr) == (0, "")
    for flag in ("num_actors", "batch_size", "num_env_groups", "num_action_repeats", "unroll_length"):
        assert f"--{flag}:" in done.stdout
    assert "--task:" not in done.stdout


def test_bad_input_is_one_line_exit_code_2_and_leaves_nothing(tmp_path):
    done = local_main(tmp_path, "catch", "vtrace", "--learning_rat=1")
    assert (done.returncode, done.stdout) == (2, "")
    sentence = (
        "seed_rl: error: Unknown flag --learning_rat for environment catch and agent vtrace; did you mean "
    )
    assert done.stderr.startswith(sentence + "--learning_rate")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_logdir_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = local_main(tmp_path, "catch", "vtrace", "--logdir=file")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == ("seed_rl: error: --logdir=file is a file; name a directory.")
