"""The directory of a sweep: Optuna's journal of its trials, and a lock that admits one sweep at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from seed_rl.messages import warn
from seed_rl.runs import lock
from seed_rl.runs.layout import SWEEP_JOURNAL, RunDirectory
from seed_rl.runs.record import differences, is_directory
from seed_rl.sweeps.study import latest, outcomes

_NAME = "sweep"
_IDENTITY = "identity"


def read(directory: Path, identity: dict[str, Any]) -> optuna.Study:
    """The study in a directory, or an empty one that is not in any file; changes nothing.

    `identity` has the settings that must not change in the directory, as JSON values.

    Raises:
      ValueError: the directory cannot be used, or belongs to another sweep; the message is one sentence.
    """
    path = directory / SWEEP_JOURNAL
    if not is_directory(directory) or not path.exists():
        if RunDirectory(directory).record.exists() or next(directory.glob("trial_*"), None):
            raise ValueError(f"--logdir={directory} contains runs but no {path.name}; use another.")
        return _study(None)
    try:
        if b"\n" not in path.read_bytes():  # Nothing was written yet.
            return _study(None)
        study = optuna.load_study(study_name=_NAME, storage=_storage(path))
        for trial in latest(study).values():
            outcomes(trial)
    except Exception as error:  # Optuna relies on what it wrote itself, so damage can raise anything.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read ({reason}); put back a copy of it, or use another --logdir."
        ) from None
    found = differences(study.user_attrs.get(_IDENTITY, identity), identity)
    if found:
        raise ValueError(
            f"--logdir={directory} belongs to another sweep ({'; '.join(found)}); use another --logdir, or "
            "the space, seed and flags of that sweep."
        )
    return study


@contextlib.contextmanager
def held(directory: Path, identity: dict[str, Any]) -> Iterator[optuna.Study]:
    """The study in a directory, made if there is none; other sweeps are kept out of the directory.

    Raises:
      ValueError: it cannot be written, is in use, or belongs to another sweep; the message is one sentence.
    """
    with lock.held(directory):
        read(directory, identity)
        try:
            _drop_torn_line(directory / SWEEP_JOURNAL)
            study = _study(_storage(directory / SWEEP_JOURNAL))
            if _IDENTITY not in study.user_attrs:
                study.set_user_attr(_IDENTITY, identity)
        except OSError as error:
            raise ValueError(
                f"--logdir={directory} cannot be written ({error.strerror}); use another."
            ) from None
        yield study


def _study(storage: optuna.storages.BaseStorage | None) -> optuna.Study:
    # The study draws nothing itself (see `study.draw`).
    sampler = optuna.samplers.RandomSampler()
    return optuna.create_study(
        storage=storage, sampler=sampler, study_name=_NAME, direction="maximize", load_if_exists=True
    )


def _storage(path: Path) -> optuna.storages.JournalStorage:
    # The other kind of lock is a symbolic link, which some file systems do not have.
    backend = JournalFileBackend(str(path), JournalFileOpenLock(str(path)))
    return optuna.storages.JournalStorage(backend)


def _drop_torn_line(path: Path) -> None:
    """Removes a last line that is incomplete, after a full disk for example: Optuna would append to it."""
    if not path.exists():
        return
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        warn(f"{path}: the last line is incomplete and removed.")
        os.truncate(path, complete)
