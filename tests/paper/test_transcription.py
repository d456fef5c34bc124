"""Every printed cell of the papers' tables as data is that of a second transcription, `transcription.txt`."""

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from seed_rl.paper import tables
from seed_rl.runs.scores import published_games

HEADINGS = {
    "DeepMind Lab": {"suite": "dmlab"},
    "Google Research Football": {"suite": "football"},
    "Arcade Learning Environment": {"suite": "atari"},
    "Scoring reward": {"rewards": "scoring"},
    "Checkpoint reward": {"rewards": "scoring,checkpoints"},
}
COSTS = "cpus environments frames_per_second dollars ratio"
HOURS = "gpus_1 gpus_2 gpus_4 gpus_8"
COLUMNS = {
    "seed/table_1": "agent accelerator environments actor_cpus batch_size frames_per_second ratio",
    "seed/table_2": "architecture accelerator model median maximum",
    "seed/table_3": "resource dollars_per_hour",
    "seed/table_4": f"model actors {COSTS}",
    "seed/table_5": f"model actors {COSTS}",
    "seed/table_10": "game human r2d2 seed_8_tpu_v3",
    "seed/table_11": "model architecture actors_dollars learner_dollars total_dollars",
    "seed/table_12": f"architecture actors {COSTS}",
    "seed/table_13": "model impala_ms seed_ms",
    "accelerated_methods/table_1": "simulators synchronous asynchronous",
    "accelerated_methods/table_2": f"algorithm {HOURS}",
    "accelerated_methods/table_3": f"algorithm {HOURS}",
}
NOT_PRINTED = {"preset", "random"}  # Ours, and published with the benchmark.
SETTINGS = [f"seed/table_{number}" for number in (6, 7, 8, 9)]


def printed_cells():
    """The rows of each table, and their heading, as they are printed."""
    found = {}
    for line in (Path(__file__).parent / "transcription.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows, heading = found.setdefault(line.strip("[]"), []), ""
        elif "\t" in line:
            rows.append((heading, line.split("\t")))
        elif not line.startswith("#"):
            heading = line
    return found


CELLS = printed_cells()


def number(text):
    """The number in a cell, None if it has none, or its text."""
    match = re.fullmatch(r"\$?(-?[\d,]*\.?\d+)([kKM]?)(?:x|ms)?[¹²³⁴]?", text)
    if not match:
        return None if text in ("—", "N/A", "n/a", "_") else text.replace("Tesla ", "")
    return float(match[1].replace(",", "")) * {"": 1, "k": 1e3, "K": 1e3, "M": 1e6}[match[2]]


def accelerators(text):
    """The kind of accelerator and their number."""
    if match := re.fullmatch(r"TPU v3, (\d+) cores", text):
        return {"accelerator": "TPU v3 core", "accelerators": float(match[1])}
    count, _, kind = text.rpartition(" x ")
    return {"accelerator": kind, "accelerators": float(count or 1)}


def transcribed(name):
    """The rows of a table, as values by the columns of the data."""
    found = []
    for heading, cells in CELLS[name]:
        row = dict(zip(COLUMNS[name].split(), cells, strict=True))
        more = dict(HEADINGS.get(heading, {}))
        if name in ("seed/table_4", "seed/table_5"):
            more["architecture"], _, devices = heading.partition(", ")
            more |= accelerators(devices)
        if name == "seed/table_12":
            more |= accelerators(heading) | {"model": "Default"}
        if "accelerator" in row:
            more |= accelerators(row.pop("accelerator"))
        if name == "seed/table_1":
            more["architecture"], _, model = row.pop("agent").partition(", ")
            of_eight = {"¹": 6, "³": 5}.get(row["batch_size"][-1])
            more["training_accelerators"] = of_eight and of_eight * more["accelerators"] / 8
            more["model"] = model or "Default"
        if "algorithm" in row:
            row["algorithm"], _, batch = row["algorithm"].rpartition("-")
            row["algorithm"] = row["algorithm"] or batch
            more["batch_size"] = float(batch) if batch.isdigit() else None
        found.append({column: number(cell) for column, cell in row.items()} | more)
    return found


def rows_of(name):
    if name == "seed/table_10":
        games = published_games("atari").items()
        return [SimpleNamespace(game=game, **scores) for game, scores in games]
    return tables.read(name)


def printed(rows):
    """The columns of rows that the paper prints."""
    return [
        {column: value for column, value in vars(row).items() if column not in NOT_PRINTED} for row in rows
    ]


def changed(value):
    """Another value for a cell."""
    return {type(None): 1, str: f"{value} "}.get(type(value)) or round(value + 0.01, 4)


@pytest.mark.parametrize("name", COLUMNS)
def test_tables_are_as_printed_and_no_cell_can_change_unnoticed(name):
    rows, expected = rows_of(name), transcribed(name)
    assert printed(rows) == expected
    for number_of_row, row in enumerate(rows):
        for column in vars(row).keys() - NOT_PRINTED:
            other = copy.deepcopy(rows)
            setattr(other[number_of_row], column, changed(getattr(row, column)))
            assert printed(other) != expected, (row, column)
    assert printed(rows[:-1]) != expected


def settings_in_print():
    """What Tables 6 to 9 print for each parameter."""
    return {
        (f"Table {name.rpartition('_')[2]}", parameter, same_numbers(text))
        for name in SETTINGS
        for _, (parameter, text) in CELLS[name]
    }


def settings_in_data(settings, ranges):
    """The same from the data; ranges as they are printed."""
    sources = {f"Table {name.rpartition('_')[2]}" for name in SETTINGS}
    found = {(row.source, row.parameter, row.printed) for row in settings if row.source in sources}
    for row in ranges:
        form = {"choice": "{%s}", "log_uniform": "Log-uniform (%s)"}[row.kind]
        found.add((row.source, row.parameter, form % ", ".join(f"{value:g}" for value in row.values)))
    return found


def same_numbers(text):
    """A range with its numbers in one notation; other texts as they are."""
    if text.startswith(("{", "Log-uniform (")):
        return re.sub(r"[.\d][-.e\d]*", lambda found: f"{float(found[0]):g}", text)
    return text


def test_settings_of_tables_6_to_9_are_as_printed_and_no_cell_can_change_unnoticed():
    expected = settings_in_print()
    settings, ranges = tables.read("seed/settings"), tables.read("seed/ranges")
    assert settings_in_data(settings, ranges) == expected
    cells = [
        (row, "printed", f"{row.printed}0")
        for row in settings
        if row.source in {source for source, *_ in expected}
    ]
    for row in ranges:
        for place, value in enumerate(row.values):
            values = (*row.values[:place], 2 * value, *row.values[place + 1 :])
            cells.append((row, "values", values))
    assert len(cells) > 60
    for row, column, other in cells:
        before = getattr(row, column)
        setattr(row, column, other)
        assert settings_in_data(settings, ranges) != expected, row
        setattr(row, column, before)


def numbers_in_print(settings, source, parameter):
    """The numbers that a paper gives for a setting, without those in parentheses, which name sections."""
    printed = " ".join(row.printed for row in settings if (row.source, row.parameter) == (source, parameter))
    return numbers_in(re.sub(r"\([^)]*\)", "", printed))


def numbers_in(text):
    return {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?(?!\d)", text)}


@pytest.mark.parametrize("name", ["seed/settings", "accelerated_methods/settings"])
def test_settings_of_the_text_have_its_numbers(name):
    settings = tables.read(name)
    for _, (source, parameter, text) in CELLS[name]:
        assert numbers_in_print(settings, source, parameter) == numbers_in(text), parameter
