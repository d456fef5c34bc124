"""What setup.py says of the package. tools/prove_packages.sh builds it, installs it, and trains."""

import re
import runpy
import subprocess
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")


@pytest.fixture(scope="module")
def arguments():
    with mock.patch.object(setuptools, "setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    return setup.call_args.kwargs


def name(line):
    return re.match(r"[\w-]+", line)[0]


def test_the_gpu_extra_is_the_learners_with_cuda(arguments):
    learner, gpu = arguments["extras_require"]["learner"], arguments["extras_require"]["gpu"]
    (tensorflow,) = (line for line in learner if name(line) == "tensorflow")
    assert tensorflow.replace("tensorflow", "tensorflow[and-cuda]") in gpu
    assert sorted(map(name, gpu)) == sorted(map(name, learner))
    assert set(learner) - set(gpu) == {tensorflow}


def test_the_tpu_extra_is_the_learners_with_another_tensorflow(arguments):
    learner, tpu = arguments["extras_require"]["learner"], arguments["extras_require"]["tpu"]
    assert {name(line) for line in set(learner) - set(tpu)} == {"tensorflow", "tensorboard"}
    assert set(tpu) - set(learner) == {"tensorflow-tpu>=2.20,<2.21", "tensorboard>=2.20,<2.21"}
    for other in arguments["extras_require"].items():
        assert other[0] == "tpu" or "tensorflow-tpu" not in map(name, other[1])


def test_protobuf_may_be_what_tensorflow_takes(arguments):
    (ours,) = (line for line in arguments["install_requires"] if name(line) == "protobuf")
    theirs = next(line for line in metadata.requires("tensorflow") if name(line) == "protobuf")
    assert {"<8", ">=6.31.1"} == set(ours.removeprefix("protobuf").split(","))
    assert {"<8.0.0", ">=6.31.1"} == set(theirs.removeprefix("protobuf").split(","))


def test_tensorboard_is_no_older_than_the_one_of_these_tests(arguments):
    (ours,) = (line for line in arguments["extras_require"]["learner"] if name(line) == "tensorboard")
    lowest = re.search(r">=(\d+\.\d+)", ours)[1]
    assert metadata.version("tensorboard").startswith(f"{lowest}.")


def test_the_pythons_are_the_same_everywhere(arguments):
    assert arguments["python_requires"] == f">={PYTHONS[0]}"
    found = [c for c in arguments["classifiers"] if re.search(r":: 3\.\d", c)]
    assert found == [f"Programming Language :: Python :: {version}" for version in PYTHONS]
    assert f"VERSIONS=({' '.join(PYTHONS)})" in (ROOT / "tools/prove_packages.sh").read_text()
    text = f"Python {PYTHONS[0]} to {PYTHONS[-1]}"
    for path in ("README.md", "CONTRIBUTING.md", "tools/setup_venv.sh"):
        assert text in (ROOT / path).read_text(), path


def test_there_is_a_description_and_links(arguments):
    assert arguments["long_description"] == (ROOT / "README.md").read_text()
    assert arguments["long_description_content_type"] == "text/markdown"
    assert all(url.startswith("https://") for url in arguments["project_urls"].values())


def test_the_script_says_which_python_is_missing(tmp_path):
    script = ROOT / "tools" / "prove_packages.sh"
    done = subprocess.run([script, tmp_path / "python"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"{tmp_path}/python is not a working Python; give another.")
