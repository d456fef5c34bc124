"""A cache of compiled DeepMind Lab levels that many actors share (SEED RL, appendix A.1.1).

Most levels are generated at random for each episode, and compiling one takes far longer than an agent step.
The engine requests a level from the cache by its key before it compiles the level, and stores it afterwards.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import types
import uuid
from typing import Any

_log = logging.getLogger(__name__)


def open_level_cache(location: str) -> "LevelCache":
    """The cache in a local directory, which is created if needed, or at a URL such as gs://bucket/levels.

    A directory may be one that several machines have mounted. URLs go through fsspec: object stores, and
    anything else that it has a package for. The store itself is first contacted by `fetch`.

    Raises:
      ValueError: the directory cannot be created, or the URL's protocol is not known; one sentence.
      ImportError: fsspec, or its package for the URL's protocol, is not installed; one sentence.
    """
    if "://" in location:
        return LevelCache(location, *_file_system(location))
    directory = os.path.expanduser(location)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--level_cache={location} cannot be created ({error.strerror}); choose a directory that "
            "this actor may write to."
        ) from error
    # The part of an fsspec file system that the cache needs, without fsspec.
    files = types.SimpleNamespace(
        get_file=shutil.copyfile,
        put_file=shutil.copyfile,
        mv=os.replace,
        rm_file=os.remove,
        makedirs=os.makedirs,
    )
    return LevelCache(location, files, directory)


class LevelCache:
    """The methods that the engine calls: `fetch` before it compiles a level, and `write` afterwards.

    Both are safe with any number of actors at a time: a file gets its name only when it is complete. A cache
    that fails costs time but never ends the actor: a failed `fetch` is a miss, a failed `write` is ignored,
    and the first failure of either kind is logged.
    """

    def __init__(self, location: str, files: Any, root: str):
        """Use `open_level_cache`. `files` does what an fsspec file system does; `root` is a path in it."""
        self._location, self._files, self._root = location, files, root
        self._is_made = False
        self._logged: set[str] = set()

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the level with this key to `pk3_path`; False if the cache does not have it."""
        partial = f"{pk3_path}.{uuid.uuid4().hex}.tmp"
        try:
            self._files.get_file(self._path(key), partial)
            os.replace(partial, pk3_path)
        except FileNotFoundError:
            return False
        except Exception as error:
            self._log_once("read", error)
            return False
        finally:
            with contextlib.suppress(OSError):
                os.remove(partial)
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the level at `pk3_path` under this key, and replaces any that was there."""
        path = self._path(key)
        partial = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            if not self._is_made:
                self._files.makedirs(self._root, exist_ok=True)
                self._is_made = True
            try:
                self._files.put_file(pk3_path, partial)
                self._files.mv(partial, path)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._files.rm_file(partial)
                raise
        except Exception as error:
            self._log_once("written", error)

    def _path(self, key: str) -> str:
        """A path that is valid in every file system and differs for every key, whatever the key contains."""
        return f"{self._root}/{hashlib.sha256(key.encode()).hexdigest()}.pk3"

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
