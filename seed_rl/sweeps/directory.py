"""The directory of a sweep: its record, and a lock that admits one sweep at a time."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seed_rl.files import read_json, write_atomically
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import differences, is_directory

_RECORD = "sweep.json"


def check(directory: Path, identity: dict[str, Any]) -> None:
    """Refuses a directory with runs or a sweep whose settings are not these (`identity`); changes nothing.

    Raises:
      ValueError: the directory cannot be used; the message is one sentence that says why.
    """
    if not is_directory(directory):
        return
    path = directory / _RECORD
    try:
        recorded = read_json(path)
    except FileNotFoundError:
        if RunDirectory(directory).record.exists() or next(directory.glob("trial_*"), None):
            raise ValueError(f"--logdir={directory} contains runs but no {_RECORD}; use another.") from None
        return
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); use another --logdir.") from None
    found = differences(recorded, identity)
    if found:
        raise ValueError(
            f"--logdir={directory} belongs to another sweep ({'; '.join(found)}); use another --logdir, or "
            "the space, seed and flags of that sweep."
        )


@contextlib.contextmanager
def held(directory: Path, identity: dict[str, Any]) -> Iterator[None]:
    """Makes the directory, keeps other sweeps out of it, and checks and records which sweep it is for.

    Raises:
      ValueError: it cannot be written, is in use, or belongs to another sweep; the message is one sentence.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise ValueError(
            f"--logdir={directory} cannot be used as a directory ({error.strerror}); use another."
        ) from None
    try:
        _lock(handle, directory)
        check(directory, identity)
        if not (directory / _RECORD).exists():
            try:
                write_atomically(directory / _RECORD, json.dumps(identity, indent=2) + "\n")
            except OSError as error:
                raise ValueError(
                    f"--logdir={directory} cannot be written ({error.strerror}); use another."
                ) from None
        yield
    finally:
        os.close(handle)


def _lock(handle: int, directory: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"A sweep is already running in {directory}; wait until it has ended, or use another --logdir."
        ) from None
    except OSError:
        pass  # A file system without locks.
