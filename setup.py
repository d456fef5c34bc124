"""Names the packages; pyproject.toml has the rest. Two of them are found only where it says."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["seed_rl", "seed_rl.*"]), "seed_rl.configs", "seed_rl.protos"])
