"""Metadata in pyproject.toml. tools/prove_packages.sh builds the package, installs it, and trains."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_IN_ALL = {"all", "dev", "docs", "gpu", "tpu"}


def name(line):
    return re.match(r"[\w-]+", line)[0]


def test_extras_contain_what_their_names_promise():
    """The learner's with CUDA, and with another TensorFlow for TPUs; and all that go with one another."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    learner, tpu = extras["learner"], extras["tpu"]
    (tensorflow,) = (line for line in learner if name(line) == "tensorflow")
    cuda = tensorflow.replace("tensorflow", "tensorflow[and-cuda]")
    assert set(extras["gpu"]) == {"seed_rl[learner]", cuda}
    assert {name(line) for line in set(learner) - set(tpu)} == {"tensorflow", "tensorboard"}
    assert set(tpu) - set(learner) == {"tensorflow-tpu>=2.20,<2.21", "tensorboard>=2.20,<2.21"}
    (line,) = extras["all"]
    assert set(re.fullmatch(r"seed_rl\[(.+)\]", line)[1].split(",")) == set(extras) - NOT_IN_ALL
    assert "seed_rl[all,docs]" in extras["dev"]
