"""Presets: the flagfiles in configs/ that are for an environment and an agent."""

import os
from pathlib import Path

DEFAULT_ENVIRONMENT = "atari"
DEFAULT_AGENT = "vtrace"


def shortened(path: Path) -> Path:
    """A path for messages: relative to the current directory if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def find_preset(configs: Path, environment: str, agent: str, game: str | None = None) -> Path | None:
    """The flagfile for a small machine: the game's, else the environment's, else the only one.

    They are in `configs`/small and named ENVIRONMENT_AGENT or ENVIRONMENT_AGENT_GAME. `agent` is one of
    `algorithms.registry.choices`; `game` is the `--game` that was given, None if the preset determines it.
    """
    directory, stem = configs / "small", f"{environment}_{agent}"
    exact = [f"{stem}_{game.lower()}"] if game and "/" not in game else []
    for name in (*exact, stem):
        if os.path.isfile(directory / f"{name}.flags"):
            return directory / f"{name}.flags"
    candidates = [path for path in sorted(directory.glob("*.flags")) if path.name.startswith(f"{stem}_")]
    return candidates[0] if len(candidates) == 1 else None
