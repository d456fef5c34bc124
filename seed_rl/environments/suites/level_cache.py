"""A cache of compiled DeepMind Lab levels that many actors share (SEED RL, appendix A.1.1).

Most levels are generated at random for each episode, and compiling one takes far longer than an agent step.
The engine asks the cache for a level by its key before it compiles the level, and stores it afterwards.
"""

import abc
import contextlib
import hashlib
import logging
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)


def open_level_cache(location: str) -> "LevelCache":
    """The cache in a local directory, which is created if needed, or at a URL such as gs://bucket/levels.

    Raises:
      ValueError: the directory cannot be created, or the URL's protocol is not known.
      ImportError: a package for the URL is not installed.
    """
    return RemoteLevelCache(location) if "://" in location else LocalLevelCache(location)


class LevelCache(abc.ABC):
    """The methods that the engine calls: `fetch` before it compiles a level, and `write` afterwards.

    Both are safe with any number of actors at a time: a file gets its name only when it is complete. A cache
    that fails costs time but never ends the actor: a failed `fetch` is a miss, a failed `write` is ignored,
    and the first failure of either kind is logged.
    """

    # The errors that a cache may cause; anything else is a bug and keeps its traceback.
    _failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, location: str):
        self._location = location
        self._logged: set[str] = set()

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the level with this key to `pk3_path`; False if the cache does not have it."""
        partial = f"{pk3_path}.{uuid.uuid4().hex}.tmp"
        try:
            self._copy_to(_file_name(key), partial)
            os.replace(partial, pk3_path)
        except FileNotFoundError:
            return False
        except self._failures as error:
            self._log_once("read", error)
            return False
        finally:
            with contextlib.suppress(OSError):
                os.remove(partial)
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the level at `pk3_path` under this key, and replaces any that was there."""
        try:
            self._copy_from(pk3_path, _file_name(key))
        except self._failures as error:
            self._log_once("written", error)

    @abc.abstractmethod
    def _copy_to(self, name: str, path: str) -> None:
        """Copies a file from the cache to a local path; FileNotFoundError if the cache does not have it."""

    @abc.abstractmethod
    def _copy_from(self, path: str, name: str) -> None:
        """Copies a local file into the cache, where it appears complete or not at all."""

    def _log_once(self, what: str, error: Exception) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning(
                "The level cache %s cannot be %s, so levels are compiled again (%s: %s); logged once.",
                self._location,
                what,
                type(error).__name__,
                error,
            )


class LocalLevelCache(LevelCache):
    """A cache in a directory of this machine, or in one that several machines have mounted."""

    def __init__(self, directory: str):
        """Creates the directory if it does not exist.

        Raises:
          ValueError: the directory cannot be created; one sentence.
        """
        super().__init__(directory)
        self._directory = Path(directory).expanduser()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"--level_cache={directory} cannot be created ({error.strerror}); choose a directory that "
                "this actor may write to."
            ) from error

    def _copy_to(self, name: str, path: str) -> None:
        shutil.copyfile(self._directory / name, path)

    def _copy_from(self, path: str, name: str) -> None:
        partial = self._directory / f"{name}.{uuid.uuid4().hex}.tmp"
        try:
            shutil.copyfile(path, partial)
            os.replace(partial, self._directory / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


class RemoteLevelCache(LevelCache):
    """A cache at a URL, through fsspec: object stores and anything else that it has a package for."""

    _failures = (Exception,)  # Each store raises exceptions of its own.

    def __init__(self, url: str):
        """Finds the store's package; the store itself is first contacted by `fetch`.

        Raises:
          ValueError: fsspec has no such protocol; one sentence.
          ImportError: fsspec, or its package for this protocol, is not installed; one sentence.
        """
        super().__init__(url)
        self._files, self._root = _file_system(url)
        self._is_made = False

    def _copy_to(self, name: str, path: str) -> None:
        self._files.get_file(f"{self._root}/{name}", path)

    def _copy_from(self, path: str, name: str) -> None:
        partial = f"{self._root}/{name}.{uuid.uuid4().hex}.tmp"
        if not self._is_made:
            self._files.makedirs(self._root, exist_ok=True)
            self._is_made = True
        try:
            self._files.put_file(path, partial)
            self._files.mv(partial, f"{self._root}/{name}")
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(partial)
            raise


def _file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system for a URL, and the path in it."""
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(
            f"--level_cache={url} is a URL, which needs fsspec and its package for that store, gcsfs for "
            f"gs:// or s3fs for s3:// ({error}): pip install fsspec gcsfs."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"--level_cache={url} is not valid ({error}); use a directory, or a URL that fsspec supports, "
            "such as gs://bucket/levels."
        ) from error
    return files, str(root).rstrip("/")


def _file_name(key: str) -> str:
    """A name that is valid in every file system and differs for every key, whatever the key contains."""
    return f"{hashlib.sha256(key.encode()).hexdigest()}.pk3"
