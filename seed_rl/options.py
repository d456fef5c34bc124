"""Options: frozen, validated configuration dataclasses whose fields carry their own help.

A field is written once, `learning_rate: float = option(6e-4, "…", above=0)`; the flags at the edge, the
validation and the run directory's record are all derived from it.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
) -> Any:
    """A dataclass field with a help text (say the unit) and limits that `Options` checks.

    Args:
      default: the default; None makes the option optional.
      help: one or two sentences, with the unit, and the paper's value where there is one.
      choices: valid values, for strings.
      at_least: lowest valid number.
      at_most: highest valid number.
      above: the number must be greater than this.
    """
    limits = {"choices": choices, "at_least": at_least, "at_most": at_most, "above": above}
    return dataclasses.field(default=default, metadata={"help": help, **limits})


@dataclasses.dataclass(frozen=True)
class Options:
    """Base of all configurations. Subclasses are frozen dataclasses made of `option` fields.

    Raises:
      ValueError: from the constructor, one sentence that names the option and its valid values.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata:
                _check(field.name, getattr(self, field.name), field.metadata)
        self.validate()

    def validate(self) -> None:
        """Checks between fields; override, and raise ValueError with one sentence."""

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The defaults by name, as JSON can hold them; together they need not be valid."""
        return json.loads(json.dumps({field.name: field.default for field in dataclasses.fields(cls)}))

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


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
