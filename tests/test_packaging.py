"""What setup.py says of the package. tools/prove_packages.sh builds it, installs it, and trains."""

import re
import runpy
from pathlib import Path
from unittest import mock

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]


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
