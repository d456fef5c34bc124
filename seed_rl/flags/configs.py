"""The project's own files in configs/: presets, and search spaces of sweeps."""

import os
from pathlib import Path

import seed_rl
from seed_rl.flags.errors import UsageError


def configs_directory() -> Path:
    """Directory of the presets: inside the package when installed, beside it in a clone."""
    package = Path(seed_rl.__file__).parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def find_config(path: str, kind: str) -> Path:
    """The file that a flag names: at that path, or else, with or without `configs/` in front, in configs/.

    So the commands in the docs work in any directory, and where there is no clone. `kind` is a pattern for
    the files in configs/ that a wrong path may mean.

    Raises:
      UsageError: there is no such file, but one in configs/ has its name, with or without its suffix.
    """
    given, configs = Path(os.path.expanduser(path)), configs_directory()
    if os.path.lexists(given):
        return given
    own = configs / path.removeprefix("configs/")
    if os.path.isfile(own):
        return own
    names = (given.name, given.name + Path(kind).suffix)
    meant = [str(file.relative_to(configs)) for file in configs.glob(kind) if file.name in names]
    if meant:
        raise UsageError(f"There is no file {path}; did you mean {' or '.join(sorted(meant))}?")
    return given


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
