"""Files with a function that makes environments, and with what its process had that actors would lack.

That is the user's part of the search path for modules, and the ids that are registered with Gymnasium. The
fingerprint of a function is equal in every process for equal code, whatever lines and file it is in. A hash
of the pickle does not serve: it contains random ids of classes, paths, line numbers, and sets in an order
that differs between processes.
"""

import ast
import contextlib
import copyreg
import dataclasses
import dis
import functools
import hashlib
import os
import pickle
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from seed_rl.environments.base import PICKLE
from seed_rl.environments.failures import foreign
from seed_rl.messages import reason, warn

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...))
_CODE = "argcount posonlyargcount kwonlyargcount flags code exceptiontable names varnames freevars cellvars"
# The attributes that make up an object of these types.
_ATTRIBUTES = {
    CodeType: tuple(f"co_{name}" for name in _CODE.split()),
    FunctionType: ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__"),
    CellType: ("cell_contents",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}
# Entries of a class that Python or a decorator makes, or that depend on the lines that it is on.
_NO_ENTRIES = ("__dict__", "__doc__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__")


def contents(function: Callable[..., Any]) -> tuple[bytes, str]:
    """The contents of a function's file, and the `fingerprint` of the function.

    Raises:
      ValueError: the function cannot be pickled; one sentence.
    """
    import cloudpickle

    path = [os.path.abspath(place) for place in sys.path if not _is_installed(place)]
    path = list(filter(os.path.exists, path))  # Editable installs add entries that are no paths.
    specs, own = {}, []
    for env_id, spec in sorted(gymnasium.registry.items()):
        module = _module(spec)
        package = module.partition(".")[0]
        if module == "__main__" and isinstance(spec.entry_point, str):
            creator: Any = load_env_creator(spec.entry_point)
            spec = dataclasses.replace(spec, entry_point=creator)
        if _is_own(module) or (callable(spec.entry_point) and package != "gymnasium"):
            own += [spec, sys.modules.get(module)]
        if package != "gymnasium":
            try:
                specs[env_id] = cloudpickle.dumps(spec)
            except Exception as error:
                warn(
                    f"actors will lack the Gymnasium id {env_id}, which cannot be pickled ({reason(error)})."
                )
    try:
        return pickle.dumps((path, specs)) + cloudpickle.dumps(function), fingerprint(function, *own)
    except Exception as error:
        raise ValueError(
            f"The function cannot be pickled ({reason(error)}); make the environment inside it."
        ) from error


def _module(spec: EnvSpec) -> str:
    entry = spec.entry_point or spec.vector_entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def load(path: str) -> Callable[..., Any]:
    """The function in a file; the same object each time, so that environments share what it refers to.

    Raises:
      ValueError: the file cannot be read; one sentence.
    """
    try:
        return foreign(_load, path, os.stat(path).st_mtime_ns)
    except OSError as error:
        raise ValueError(f"--game={PICKLE}:{path} cannot be read ({error.strerror}).") from error


@functools.lru_cache
def _load(path: str, changed: int) -> Callable[..., Any]:
    with open(path, "rb") as file:
        found = pickle.load(file)
        if callable(found):  # The file has the function only.
            return found
        places, specs = found
        sys.path[:0] = [place for place in places if place not in sys.path]
        function = pickle.load(file)  # Imports modules that register their ids.
        if missing := specs.keys() - gymnasium.registry.keys():
            gymnasium.registry.update({env_id: pickle.loads(specs[env_id]) for env_id in missing})
            # Later on, environments import modules that register theirs again.
            warnings.filterwarnings("ignore", ".*Overriding environment")
        return function


def fingerprint(*values: Any) -> str:
    """SHA-256, as hexadecimal digits, of functions and other objects with all that they refer to.

    A module that is installed counts by its name; any other also by its syntax tree and the modules that it
    imports. Of objects in sets, only texts, numbers, and tuples and sets of them count in full.
    """
    # Objects get numbers in the order in which they are met, and are kept, so that no id is used again.
    numbers: dict[int, int] = {}
    met: list[Any] = []

    def form(value: Any) -> Any:
        if type(value) in _ATOMS:
            return type(value).__name__, value
        if type(value) is tuple:
            return tuple(map(form, value))
        if id(value) not in numbers:
            numbers[id(value)] = len(met)
            met.append(value)
        return numbers[id(value)]

    digest = hashlib.sha256(repr(form(values)).encode())
    for value in met:  # It grows meanwhile.
        shallow = type(value).__name__, *map(form, _parts(value))
        digest.update(repr(shallow).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_own(module: str) -> bool:
    """Whether a module is the user's: imported, and a script, a notebook, or one that is not installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None or module.partition(".")[0] == "seed_rl":
        return module == "__main__"
    return not _is_installed(file)


def _is_installed(path: str) -> bool:
    """Whether a path is one of Python's own or of installed packages."""
    is_package = not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)
    return is_package or path.startswith(sysconfig.get_path("stdlib"))


def _parts(value: Any) -> Iterator[Any]:
    """The objects that make up another one."""
    if type(value) is list:
        yield from value
    elif type(value) in (set, frozenset):
        yield from sorted(map(_in_set, value))
    elif type(value) in (dict, MappingProxyType):
        yield from value.items()
    elif isinstance(value, ModuleType):
        yield from _of_module(value)
    elif isinstance(value, FunctionType | type) and _is_importable(value):
        yield from (value.__qualname__, sys.modules[value.__module__])
    elif isinstance(value, type):
        entries = sorted((name, item) for name, item in vars(value).items() if name not in _NO_ENTRIES)
        yield from (value.__name__, value.__bases__, *entries)
    elif type(value) in _ATTRIBUTES:
        yield from (getattr(value, name, None) for name in _ATTRIBUTES[type(value)])
        if isinstance(value, FunctionType):
            names = sorted(set(_global_names(value.__code__)) & value.__globals__.keys())
            yield from ((name, value.__globals__[name]) for name in names)
        elif isinstance(value, CodeType):
            line = value.co_firstlineno if "__firstlineno__" in value.co_names else None
            yield from (0 if type(item) is int and item == line else item for item in value.co_consts)
    else:
        yield from _of_instance(value)


def _in_set(item: Any) -> str:
    """A text for an object in a set, whose order means nothing."""
    if isinstance(item, tuple | frozenset):
        texts = map(_in_set, item)
        return repr(list(texts) if isinstance(item, tuple) else sorted(texts))
    return repr(item) if type(item) in _ATOMS else f"{type(item)} {getattr(item, 'name', '')}"


def _of_module(module: ModuleType) -> Iterator[Any]:
    yield module.__name__
    if module.__name__ == "__main__" or not _is_own(module.__name__):
        return
    content = b""
    with contextlib.suppress(OSError):  # It is in an archive, say.
        content = Path(str(module.__file__)).read_bytes()
    try:
        yield ast.dump(ast.parse(content))
    except (SyntaxError, ValueError):  # Compiled.
        yield content
    for item in vars(module).values():
        name = getattr(item, "__name__" if isinstance(item, ModuleType) else "__module__", None)
        if isinstance(name, str) and _is_own(name):
            yield sys.modules[name]


def _of_instance(value: Any) -> Iterator[Any]:
    """The parts of an object that `pickle` would write; of one that it refuses, type and attributes."""
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # A lock, for instance; what the function needs, the pickler refuses.
        reduced = type(value).__qualname__
    if isinstance(reduced, str):  # A name, also of what functools.lru_cache returns.
        reduced = reduced, getattr(value, "__module__", None), getattr(value, "__dict__", None)
    yield from (list(part) if isinstance(part, Iterator) else part for part in reduced)


def _is_importable(value: Any) -> bool:
    """Whether a function or class is pickled by its name."""
    module = sys.modules.get(value.__module__) if value.__module__ != "__main__" else None
    try:
        return functools.reduce(getattr, value.__qualname__.split("."), module) is value
    except AttributeError:
        return False


def _global_names(code: CodeType) -> Iterator[str]:
    """The names of globals in a code object and those inside it."""
    for instruction in dis.get_instructions(code):
        if "GLOBAL" in instruction.opname or instruction.opname == "LOAD_NAME":
            yield instruction.argval
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _global_names(item)
