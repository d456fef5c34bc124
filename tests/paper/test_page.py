"""Tables in docs/paper.md have the values of the data."""

from pathlib import Path

from seed_rl.flags.flagfile import configs_directory
from seed_rl.paper import tables

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_has_the_contradictions_of_the_data():
    rows = [line for line in section("Where the papers contradict themselves").splitlines() if "|" in line]
    expected = [
        f"| {row.paper} | {row.quantity} | {row.first} ({row.first_source}) "
        f"| {row.second} ({row.second_source}) |".replace("$", r"\$")
        for row in tables.read("contradictions")
    ]
    assert rows[2:] == expected


def test_the_page_has_every_preset_of_the_two_papers_and_the_rows_of_the_tables():
    for title, directory in (
        ("SEED RL", "seed"),
        ("Accelerated Methods for Deep Reinforcement Learning", "accelerated_methods"),
    ):
        names = {path.stem for path in (configs_directory() / "paper" / directory).glob("*.flags")}
        assert {name for name in names if f"`{name}`" not in section(title)} == set()
    for row in (row for number in (1, 4, 5, 12) for row in tables.read(f"seed/table_{number}")):
        name = f"`{row.preset}`" if row.preset else f"none for {row.architecture}"
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {name} |"))
        environments, batch_size, remark = map(str.strip, line.split("|")[3:6])
        evaluating = " + 10" if row.preset and row.preset.startswith("atari") else ""
        assert environments == f"{row.environments:,}{evaluating}"
        assert batch_size == str(getattr(row, "batch_size", batch_size))
        assert row.preset or "no preset" in remark
