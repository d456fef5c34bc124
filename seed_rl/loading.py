"""Finds what a name stands for, as `package.module:attribute` or as an entry point. Imports no TensorFlow."""

import importlib
import importlib.metadata
from typing import Any, TypeVar

KindT = TypeVar("KindT")


def load(location: str) -> Any:
    """What `package.module:attribute` names.

    Raises:
      ImportError: there is no such module.
      AttributeError: the module has no such attribute.
    """
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)


def entry_points(group: str) -> dict[str, str]:
    """The location of each entry point of installed packages in this group, by name."""
    return {entry.name: entry.value for entry in importlib.metadata.entry_points(group=group)}


def load_named(flag: str, name: str, location: str) -> Any:
    """What a flag's value stands for, such as an entry point of somebody else's package.

    Args:
      flag: its name, for the sentence.
      name: its value.
      location: what the value stands for, as `module:attribute`.

    Raises:
      ValueError: it cannot be loaded; one sentence.
    """
    shown = location if name == location else f"{name} ({location})"
    try:
        return load(location)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--{flag}={shown} cannot be loaded: {error}.") from error


def load_entry(flag: str, name: str, location: str, kind: type[KindT]) -> KindT:
    """What an entry point of somebody else's package stands for, which must be a `kind`.

    Args:
      flag: its name, for the sentences.
      name: the flag's value, and the entry point's name.
      location: of the entry point, as `module:attribute`.
      kind: the class that it must be an instance of.

    Raises:
      ValueError: it cannot be loaded, or is of another kind; one sentence.
    """
    found = load_named(flag, name, location)
    if not isinstance(found, kind):
        raise ValueError(
            f"--{flag}={name} is {location}, which is no {kind.__module__}.{kind.__name__}; its package must "
            "name one in its entry point."
        )
    return found
