"""Versions of the packages that a run was trained with."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import seed_rl

_PACKAGES = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-tpu",
    "keras",
    "numpy",
    "grpcio",
    "protobuf",
    "gymnasium",
    "ale-py",
    "zstandard",
)


def versions() -> dict[str, str]:
    """The versions of the packages and, in a clone, the git revision."""
    found = {"seed_rl": seed_rl.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    here = Path(seed_rl.__file__).parent
    try:
        revision = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        found["git"] = revision.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass  # Not in a clone.
    return found
