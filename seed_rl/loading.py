"""Loads objects by name: `package.module:attribute`, or an entry point. Imports no TensorFlow.

Large packages load faster `without_garbage_collection`, TensorFlow with a `fast_tensorflow_import`.
"""

import contextlib
import functools
import gc
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
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
