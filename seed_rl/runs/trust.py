"""Trust in the code that a run's record names: it is signed by this user, or installed, or on PYTHONPATH.

The signature proves that this user trained the run, in this place. It is an HMAC with a key that only this
user can read, over the directory's path, the run's identity, the settings that name code, and its files.
"""

import hashlib
import hmac
import importlib.metadata
import importlib.util
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import PICKLE
from seed_rl.files import read_json, replacing
from seed_rl.runs.layout import RunDirectory

_KEY_BYTES = 32


def check_imports(
    logdir: Path, identity: dict[str, Any], agent_settings: dict[str, Any], trust_code: bool
) -> None:
    """Refuses to import what only a record names: no installed package has it, and PYTHONPATH neither.

    A run that this user trained, in the same place, is trusted.

    Raises:
      ValueError: the record names such a module, and the user does not `trust_code`; one sentence.
    """
    if trust_code or _is_signed(logdir):
        return
    code = _named_code(identity, agent_settings)
    named = [f"--{flag}={value}" for flag, value in code if not _is_known(value)]
    if named:
        raise ValueError(
            f"{RunDirectory(logdir).record} names code that is neither part of an installed package nor on "
            f"PYTHONPATH ({', '.join(named)}); if you trust it, add --trust_code to import it."
        )


def signature(
    logdir: Path, content: dict[str, Any], environment_code: Sequence[str] | None = None
) -> str | None:
    """The signature of the contents of a run.json; None if no code is named, or there can be no key.

    `environment_code` are the settings of the environment that name code; None: its suite has them.
    """
    try:
        named = _named_code(content["identity"], content["settings"]["agent"], environment_code)
        code = [(value, _origin(logdir, value)) for _, value in named]
        signed = json.dumps([os.path.realpath(logdir), content["identity"], code], sort_keys=True)
        return hmac.digest(_key(), signed.encode(), "sha256").hex() if code else None
    except (OSError, RuntimeError, ValueError, ImportError, LookupError, TypeError, AttributeError):
        return None


def _is_signed(logdir: Path) -> bool:
    """Whether a run directory has the signature of this user, and the code is where it was."""
    try:
        content = read_json(RunDirectory(logdir).record)
        given, right = content.get("signature"), signature(logdir, content)
    except (OSError, ValueError, AttributeError):
        return False
    return right is not None and hmac.compare_digest(right.encode(), str(given).encode())


def _named_code(
    identity: dict[str, Any], agent_settings: dict[str, Any], environment_code: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """The flags of environment and agent that are `module:NAME` or a function's file, with their values."""
    settings = identity["environment"]["settings"]
    if environment_code is None:
        suite = environments.suite(identity["environment"]["name"])
        environment_code = suite.config_class.named_code(settings)
    yield from ((flag, settings[flag]) for flag in environment_code)
    for flag in algorithms.config_class(identity["agent"]["name"]).named_code(agent_settings):
        yield flag, agent_settings[flag]


def _origin(logdir: Path, value: str) -> str | None:
    """The file of a setting's module, or a hash of the file with a function."""
    kind, _, path = value.partition(":")
    if kind == PICKLE:
        here = logdir / Path(path).name  # It comes first; see `record.read`.
        return hashlib.sha256((here if here.is_file() else Path(path)).read_bytes()).hexdigest()
    found = importlib.util.find_spec(kind.partition(".")[0])
    return found.origin if found else None


def _key() -> bytes:
    """This user's key, which is made if there is none."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "seed_rl" / "key"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise ValueError(f"{path} is no key")
    return key


def _is_known(name: str) -> bool:
    """Whether `module:NAME` is of an installed package or on PYTHONPATH; also true without a module."""
    module = name.rpartition(":")[0]
    package = module.partition(".")[0]
    installed = ("seed_rl", *importlib.metadata.packages_distributions())
    return not module or package in installed or _is_on_pythonpath(package)


def _is_on_pythonpath(package: str) -> bool:
    """Whether a module would be imported from a directory that the user has put on PYTHONPATH."""
    try:
        found = importlib.util.find_spec(package) if package.isidentifier() else None
    except (ImportError, ValueError):
        return False
    if found is None:
        return False
    # The origin of a module that is built in is a word, and no path.
    places = found.submodule_search_locations or ([str(found.origin)] if found.has_location else [])
    named = [Path(path).resolve() for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return bool(places) and all(Path(place).resolve().parent in named for place in places)
