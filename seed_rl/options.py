"""Options: frozen, validated configuration dataclasses whose fields carry their own help.

A field is declared once, `learning_rate: float = option(6e-4, "...", above=0)`; its flag, its validation and
its entry in the run directory's record are all derived from that. Settings that several configurations share
are a `part`: an algorithm's settings include those of a network and of a kind of experience.
"""

import dataclasses
import json
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

OptionsT = TypeVar("OptionsT", bound="Options")


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    is_plumbing: bool = False,
    is_path: bool = False,
    is_code: bool = False,
) -> Any:
    """A dataclass field with a help text and limits that `Options` checks.

    Args:
      default: the default; None makes the option optional.
      help: one or two sentences, with the unit, and the paper's value where there is one.
      choices: valid values, for strings.
      at_least: lowest valid number.
      at_most: highest valid number.
      above: the number must be greater than this.
      is_plumbing: whether it only sets where a run trains and how much of a machine it uses; runs that differ
        only in such options are compared as equals.
      is_path: whether a `~` at its beginning is the home directory, which shells leave as it is in a flag.
      is_code: whether `module:NAME` is imported.
    """
    limits = {"choices": choices, "at_least": at_least, "at_most": at_most, "above": above}
    kind = {"is_plumbing": is_plumbing, "is_path": is_path, "is_code": is_code}
    return dataclasses.field(default=default, metadata={"help": help, **kind, **limits})


def part(config_class: "type[Options]") -> Any:
    """A dataclass field that is itself a configuration; its options become options of the whole."""
    return dataclasses.field(default=config_class(), metadata={"is_part": True})


class OptionField(NamedTuple):
    """An option of a configuration or of one of its parts. `kinds` are the types that its field may have."""

    name: str
    kinds: tuple[Any, ...]
    default: Any
    metadata: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    """Base class of all configurations. Subclasses are frozen dataclasses of `option` and `part` fields.

    The options of all parts form one flat set of names, in flags, in `of` and in `to_dict`.

    Attributes:
      removed: options of earlier versions, each with the default that left everything as it is now.

    Raises:
      ValueError: an option is not valid; one sentence that names it and its valid values.
    """

    removed: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if "help" in field.metadata:
                _check(field.name, getattr(self, field.name), field.metadata)
        self.validate()

    def validate(self) -> None:
        """Checks constraints across fields; override it, and raise ValueError with a one-sentence message."""

    @classmethod
    def of(cls: type[OptionsT], **settings: Any) -> OptionsT:
        """Creates a configuration from options by name, whichever part they are in; the rest keep defaults.

        Raises:
          TypeError: there is no such option.
          ValueError: as in the constructor.
        """
        for part_name, kind in cls.parts().items():
            names = {leaf.name for leaf in kind.leaves()} & settings.keys()
            settings[part_name] = kind.of(**{name: settings.pop(name) for name in names})
        return cls(**settings)

    @classmethod
    def check_types(cls, settings: Mapping[str, Any]) -> None:
        """Checks the types of options from a file, by name; they need not be all, and others are ignored.

        Raises:
          ValueError: a value is not of its option's type; a few words that name it.
        """
        for leaf in cls.leaves():
            if leaf.name in settings and not _is_of(leaf.kinds, settings[leaf.name]):
                raise ValueError(f"{reprlib.repr(settings[leaf.name])} is not a valid --{leaf.name}")

    @classmethod
    def named_code(cls, settings: Mapping[str, Any]) -> list[str]:
        """The names of options that are set to `module:NAME`, which would be imported."""
        code = (leaf.name for leaf in cls.leaves() if leaf.metadata.get("is_code"))
        return [name for name in code if ":" in str(settings.get(name))]

    @classmethod
    def parts(cls) -> "dict[str, type[Options]]":
        """The classes of the fields that are themselves configurations, by field name."""
        fields: list[Any] = [field for field in dataclasses.fields(cls) if "is_part" in field.metadata]
        return {field.name: type(field.default) for field in fields}

    @classmethod
    def leaves(cls) -> Iterator[OptionField]:
        """All options, including those of parts."""
        kinds, parts = typing.get_type_hints(cls), cls.parts()
        for field in dataclasses.fields(cls):
            if field.name in parts:
                yield from parts[field.name].leaves()
            else:
                kind = kinds[field.name]
                either = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
                yield OptionField(field.name, either, field.default, field.metadata)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The defaults by name, as JSON values; together they need not be valid."""
        return json.loads(json.dumps({leaf.name: leaf.default for leaf in cls.leaves()}))

    def essentials(self) -> dict[str, Any]:
        """The options that are not plumbing by name, as JSON values."""
        plumbing = {leaf.name for leaf in self.leaves() if leaf.metadata.get("is_plumbing")}
        return {name: value for name, value in self.to_dict().items() if name not in plumbing}

    def to_dict(self) -> dict[str, Any]:
        """The options by name, as JSON values."""
        found: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            found |= value.to_dict() if "is_part" in field.metadata else {field.name: value}
        return json.loads(json.dumps(found))


def _is_of(kinds: tuple[Any, ...], value: Any) -> bool:
    """Whether a JSON value is of one of an option's types; true for types that flags do not have."""
    if not set(kinds) <= {int, float, bool, str, type(None)}:
        return True
    return type(value) in kinds or (type(value) is int and float in kinds)


def _check(name: str, value: Any, metadata: Any) -> None:
    if value is None:
        return
    choices, at_least, at_most, above = (metadata.get(k) for k in ("choices", "at_least", "at_most", "above"))
    if choices is not None and value not in choices:
        raise ValueError(f"--{name}={value} is not valid; choose one of: {', '.join(choices)}.")
    if at_least is not None and not value >= at_least:
        raise ValueError(f"--{name}={value} is too low; it must be at least {at_least}.")
    if at_most is not None and not value <= at_most:
        raise ValueError(f"--{name}={value} is too high; it must be at most {at_most}.")
    if above is not None and not value > above:
        raise ValueError(f"--{name}={value} is too low; it must be greater than {above}.")
