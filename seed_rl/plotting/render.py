"""Tables as Markdown, to read and to paste, and as CSV, for other programs."""

import csv
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Table(NamedTuple):
    """A table.

    Attributes:
      rows: values by column of the CSV, with all digits; None is an empty cell. All have the same columns.
      columns: the columns to read, by heading: the text of a row's cell.
      words: headings of the columns that are aligned to the left; the others are numbers.
      note: what the figures are.
    """

    rows: Sequence[Row]
    columns: Mapping[str, Callable[[Row], str]]
    words: Collection[str]
    note: str


def cell(name: str, form: str = "") -> Callable[[Row], str]:
    """The text of one value of a row in a format such as `,.0f`; empty for None."""
    return lambda row: "" if row[name] is None else format(row[name], form)


def as_csv(table: Table) -> str:
    """The values of all rows."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """The table with aligned columns, and the note below it; columns without any text are left out."""
    cells = {
        name: [text(row).replace("|", r"\|") for row in table.rows] for name, text in table.columns.items()
    }
    cells = {name: column for name, column in cells.items() if any(column)}
    widths = {name: max(map(len, [name, *column])) for name, column in cells.items()}

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.ljust(widths[name]) if name in table.words else text.rjust(widths[name])
            for name, text in zip(cells, texts, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rules = [
        "-" * width if name in table.words else "-" * (width - 1) + ":" for name, width in widths.items()
    ]
    body = [line(texts) for texts in zip(*cells.values(), strict=True)]
    return "\n".join([line(list(cells)), line(rules), *body, "", table.note, ""])
