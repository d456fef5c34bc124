"""Runs a benchmark as its users do."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def result(name, *args, timeout=200):
    """Last line of a benchmark's output, parsed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks", name, *args]
    done = subprocess.run(command, cwd=ROOT, env=env, timeout=timeout, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
