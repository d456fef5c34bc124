"""Metadata in pyproject.toml. tools/prove_packages.sh builds the package, installs it, and trains."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOT_IN_ALL = {"all", "dev", "docs", "gpu", "tpu"}


@pytest.fixture(scope="module")
def extras():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["optional-dependencies"]


def name(line):
    return re.match(r"[\w-]+", line)[0]


def test_the_gpu_extra_is_the_learners_with_cuda(extras):
    (tensorflow,) = (line for line in extras["learner"] if name(line) == "tensorflow")
    assert set(extras["gpu"]) == {
        "seed_rl[learner]",
        tensorflow.replace("tensorflow", "tensorflow[and-cuda]"),
    }


def test_the_tpu_extra_is_the_learners_with_another_tensorflow(extras):
    learner, tpu = extras["learner"], extras["tpu"]
    assert {name(line) for line in set(learner) - set(tpu)} == {"tensorflow", "tensorboard"}
    assert set(tpu) - set(learner) == {"tensorflow-tpu>=2.20,<2.21", "tensorboard>=2.20,<2.21"}


def test_all_has_every_extra_that_goes_with_the_others(extras):
    (line,) = extras["all"]
    assert set(re.fullmatch(r"seed_rl\[(.+)\]", line)[1].split(",")) == set(extras) - NOT_IN_ALL
    assert "seed_rl[all,docs]" in extras["dev"]
