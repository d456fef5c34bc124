"""The run directory: what it records of a run, and the check that a run goes on with what it began with."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import seed_rl
from seed_rl.networks.config import NetworkConfig
from seed_rl.options import Options

_RECORD = "run.json"
_PACKAGES = ("tensorflow", "keras", "numpy", "grpcio", "protobuf", "gymnasium", "ale-py", "zstandard")


def identity(
    environment: str, environment_config: Options, agent: str | None, agent_config: Options
) -> dict[str, Any]:
    """What must not change within a run: the environment, the agent, and the settings of its network."""
    network = {field.name for field in dataclasses.fields(NetworkConfig)}
    settings = agent_config.to_dict()
    return {
        "environment": {"name": environment, "settings": environment_config.to_dict()},
        "agent": {"name": agent, "network": {k: v for k, v in settings.items() if k in network}},
    }


def check(logdir: str, mine: dict[str, Any]) -> None:
    """Refuses a directory that belongs to another run; touches nothing.

    Args:
      logdir: the directory, which may not exist yet.
      mine: the `identity` of the run that would go on in it.

    Raises:
      ValueError: one sentence; the directory is not a directory, holds something else, or another run.
    """
    path = Path(logdir)
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"--logdir={logdir} is a file; name a directory.")
    try:
        recorded = json.loads((path / _RECORD).read_text())["identity"]
    except FileNotFoundError:
        if (path / "checkpoints").exists() or (path / "metrics.jsonl").exists():
            raise ValueError(f"--logdir={logdir} holds a run without {_RECORD}; use another.") from None
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path / _RECORD} cannot be read ({error}); use another --logdir.") from None
    found = _differences(recorded, mine)
    if found:
        raise ValueError(
            f"--logdir={logdir} belongs to another run ({'; '.join(found)}); use another --logdir, or the "
            "flags of that run."
        )


def record(logdir: str, mine: dict[str, Any], settings: dict[str, Any]) -> None:
    """Makes the directory and writes run.json, under a temporary name first.

    Args:
      logdir: the directory.
      mine: as in `check`.
      settings: all other settings of the run, as they are resolved now.

    Raises:
      ValueError: the directory cannot be written.
    """
    path = Path(logdir)
    content = {"identity": mine, "settings": settings, "versions": _versions()}
    try:
        path.mkdir(parents=True, exist_ok=True)
        temporary = path / f"{_RECORD}.tmp"
        temporary.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
        os.replace(temporary, path / _RECORD)
    except OSError as error:
        raise ValueError(f"--logdir={logdir} cannot be written ({error.strerror}); use another.") from None


def _differences(recorded: Any, mine: Any, name: str = "") -> list[str]:
    if isinstance(recorded, dict) and isinstance(mine, dict):
        keys = sorted(set(recorded) | set(mine))
        return [
            text
            for key in keys
            for text in _differences(recorded.get(key), mine.get(key), f"{name} {key}".strip())
        ]
    return [] if recorded == mine else [f"{name}: {recorded} there, {mine} now"]


def _versions() -> dict[str, str]:
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
