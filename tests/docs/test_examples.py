"""Examples on the pages, run word for word: Python in README.md, the notebook and docs/, and fine-tuning."""

import json
import os
import shlex
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.slow


EXPORTED_CATCH = """
import subprocess, sys
seed_rl = [sys.executable, "-m", "seed_rl"]
subprocess.run([*seed_rl, "train", "catch", "vtrace", "--total_environment_frames=10000"], check=True)
subprocess.run([*seed_rl, "export", "runs/catch_vtrace", "--format=onnx"], check=True)
"""


@pytest.mark.parametrize(
    ("page", "before"),
    [("python_api.md", ""), ("../README.md", ""), ("working_with_runs.md", EXPORTED_CATCH)],
)
def test_the_code_on_a_page_runs(page, before, tmp_path):
    code = "\n".join([before, *blocks(page, "python")])
    command = [sys.executable, "-c", code]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


def test_the_notebook_runs(tmp_path):
    # A kernel that sees this variable does not show what other processes print.
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env={**variables, "PYTHONPATH": str(ROOT)})
    training, *_, evaluation = (cell for cell in notebook.cells if "seed_rl." in cell.source and cell.outputs)
    shown = "".join(output.get("text", "") for output in training.outputs)
    assert "Training is complete" in shown  # The learner's output reaches the notebook.
    assert float(evaluation.outputs[-1]["data"]["text/plain"]) > 0.5  # At random: about -0.5.


def test_a_second_run_starts_with_the_weights_of_the_first(tmp_path):
    """The commands of the page, but for shorter runs."""
    (block,) = blocks("working_with_runs.md", "bash", "Start with the weights of another run")
    outputs = []
    for line in block.splitlines():
        command = [sys.executable, "-m", *shlex.split(line), "--total_environment_frames=5000"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout + done.stderr)
    last = json.loads((tmp_path / "runs/first/run.json").read_text())["complete"]
    sentence = f"Starting with the weights of runs/first/checkpoints/{last}."
    assert [text.replace("\n", " ").count(sentence) for text in outputs] == [0, 1], outputs[1]
