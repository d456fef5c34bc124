"""Signature of a run that names code: it proves that this user trained the run, in this place.

The code of such a run is imported without --trust_code. The signature is an HMAC with a key that only this
user can read, over the directory's path, the run's identity, the settings that name code, and its files.
"""

import hashlib
import hmac
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


def signature(
    logdir: str | Path, content: dict[str, Any], environment_code: Sequence[str] | None = None
) -> str | None:
    """The signature of the contents of a run.json; None if no code is named, or there can be no key.

    `environment_code` are the settings of the environment that name code; None: its suite has them.
    """
    try:
        code = list(_code(Path(logdir), content, environment_code))
        signed = json.dumps([os.path.realpath(logdir), content["identity"], code], sort_keys=True)
        return hmac.digest(_key(), signed.encode(), "sha256").hex() if code else None
    except (OSError, RuntimeError, ValueError, ImportError, LookupError, TypeError, AttributeError):
        return None


def is_signed(logdir: str | Path) -> bool:
    """Whether a run directory has the signature of this user, and the code is where it was."""
    try:
        content = read_json(RunDirectory(Path(logdir)).record)
        given, right = content.get("signature"), signature(logdir, content)
    except (OSError, ValueError, AttributeError):
        return False
    return right is not None and hmac.compare_digest(right.encode(), str(given).encode())


def _code(
    logdir: Path, content: dict[str, Any], environment_code: Sequence[str] | None
) -> Iterator[tuple[str, str | None]]:
    """The settings that name code, each with its module's file, or a hash of the file with a function."""
    environment, agent = content["identity"]["environment"], content["identity"]["agent"]["name"]
    if environment_code is None:
        config_class = environments.suite(environment["name"]).config_class
        environment_code = config_class.named_code(environment["settings"])
    of_agent = content["settings"]["agent"]
    names_of_agent = algorithms.config_class(agent).named_code(of_agent)
    for names, settings in ((environment_code, environment["settings"]), (names_of_agent, of_agent)):
        for name in names:
            kind, _, path = settings[name].partition(":")
            if kind == PICKLE:
                here = logdir / Path(path).name  # It comes first; see `record.read`.
                file = here if here.is_file() else Path(path)
                yield settings[name], hashlib.sha256(file.read_bytes()).hexdigest()
            else:
                found = importlib.util.find_spec(kind.partition(".")[0])
                yield settings[name], found.origin if found else None


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
