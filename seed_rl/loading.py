"""Loads objects by name: `package.module:attribute`, or an entry point. Imports no TensorFlow.

Large packages load faster `without_garbage_collection`, TensorFlow with a `fast_tensorflow_import`. In a
`quiet_start`, nothing of its start-up shows unless something goes wrong.
"""

import contextlib
import functools
import gc
import importlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

KindT = TypeVar("KindT")


# Keras imports these if they are installed, for pictures and data frames, which nothing here needs.
# Half of the time of its import goes into them, and OpenCV (cv2) changes LD_LIBRARY_PATH.
_NOT_FOR_KERAS = ("cv2", "matplotlib", "pandas")


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """For imports of large packages: the garbage collector is off until their end.

    It would go through all that they define again and again, which for TensorFlow takes more than a second.
    Nor does it inspect these objects later (`gc.freeze`): they are needed until the process ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def fast_tensorflow_import() -> Iterator[None]:
    """For the first import of TensorFlow and Keras: without garbage collection and packages of no use there.

    These packages can be imported afterwards.
    """
    hidden = [name for name in _NOT_FOR_KERAS if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # As if it were not installed.
    try:
        with without_garbage_collection():
            yield
    finally:
        for name in hidden:
            del sys.modules[name]


def load(location: str) -> Any:
    """The object that `package.module:attribute` names.

    Raises:
      ImportError: there is no such module.
      AttributeError: the module has no such attribute.
    """
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)


def entry_points(group: str) -> dict[str, str]:
    """The location of each entry point of installed packages in this group, by name."""
    return dict(_entry_points(group, tuple(sys.path)))


@functools.cache
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, str]:
    """The same, for packages on `path` (`sys.path`): reading all their metadata takes milliseconds."""
    return {entry.name: entry.value for entry in importlib.metadata.entry_points(group=group)}


def load_named(flag: str, name: str, location: str) -> Any:
    """The object at `location` (`module:attribute`), which the value `name` of a flag stands for.

    Raises:
      ValueError: the object cannot be loaded; one sentence that names the flag.
    """
    shown = location if name == location else f"{name} ({location})"
    try:
        return load(location)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--{flag}={shown} cannot be loaded: {error}.") from error


def load_entry(flag: str, name: str, location: str, kind: type[KindT]) -> KindT:
    """The object of an entry point of a third-party package, which a flag's value names; it must be a `kind`.

    Raises:
      ValueError: the object cannot be loaded, or is of another kind; one sentence that names the flag.
    """
    found = load_named(flag, name, location)
    if not isinstance(found, kind):
        raise ValueError(
            f"--{flag}={name} is {location}, which is not a {kind.__module__}.{kind.__name__}; change the "
            "package's entry point to name one."
        )
    return found


_LEVEL, _FROM_WARNINGS_ON = "TF_CPP_MIN_LOG_LEVEL", "1"


def _lines(descriptor: int) -> Iterator[str]:
    """Lines in a file at the time of the call; the position that native code writes at does not move."""
    sys.stderr.flush()
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    yield from content.decode(errors="replace").splitlines()


@contextlib.contextmanager
def quiet_start() -> Iterator[Iterable[str]]:
    """Holds back what native code and Python write to standard error; shows it if an exception is raised.

    TensorFlow writes lines about oneDNN and missing GPU drivers at import and at first use, which no setting
    turns off. The message of a ValueError is complete without them. Gives the lines up to the moment at which
    the first of them is read.

    If TensorFlow is imported inside, it writes warnings and errors only from then on, and nothing about
    compilers and devices, unless the environment variable TF_CPP_MIN_LOG_LEVEL is set.
    """
    is_ours = _LEVEL not in os.environ
    os.environ.setdefault(_LEVEL, _FROM_WARNINGS_ON)
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield _lines(held.fileno())
        except BaseException as error:
            if not isinstance(error, ValueError):
                held.seek(0)
                os.write(terminal, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            if is_ours:
                os.environ.pop(_LEVEL, None)
