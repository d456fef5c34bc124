"""The example of fine-tuning in docs/working_with_runs.md, word for word but for shorter runs."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_second_run_starts_with_the_weights_of_the_first(tmp_path):
    page = (ROOT / "docs/working_with_runs.md").read_text(encoding="utf-8")
    section = page.split("## Start with the weights of another run")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    outputs = []
    for line in block.splitlines():
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line), "--total_environment_frames=5000"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout + done.stderr)
    last = json.loads((tmp_path / "runs/first/run.json").read_text())["complete"]
    sentence = f"Starting with the weights of runs/first/checkpoints/{last}."
    assert [text.replace("\n", " ").count(sentence) for text in outputs] == [0, 1], outputs[1]
