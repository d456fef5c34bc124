"""The Python on the pages, run word for word: README.md, the notebook and two pages of docs/."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


EXPORTED_CATCH = """
import subprocess, sys
seed_rl = [sys.executable, "-m", "seed_rl"]
subprocess.run([*seed_rl, "train", "catch", "vtrace", "--total_environment_frames=10000"], check=True)
subprocess.run([*seed_rl, "export", "runs/catch_vtrace", "--format=onnx"], check=True)
"""


@pytest.mark.parametrize(
    ("page", "before"),
    [("docs/python_api.md", ""), ("README.md", ""), ("docs/working_with_runs.md", EXPORTED_CATCH)],
)
def test_the_code_on_a_page_runs(page, before, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    code = "\n".join([before, *re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)])
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
