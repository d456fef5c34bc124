"""The tables of the two papers, the settings in their text, and where a paper contradicts itself.

The papers are SEED RL (Espeholt et al., 2020), in `data/seed/`, and "Accelerated Methods for Deep
Reinforcement Learning" (Stooke & Abbeel, 2018), in `data/accelerated_methods/`. `table_N.csv` has the rows of
Table N in the paper's order. SEED RL's Tables 6 to 9 are in `settings.csv` and `ranges.csv`, and its Table 10
is beside the random scores in `seed_rl/runs/data/atari57_scores.csv` (`seed_rl.runs.scores`).

Numbers are as printed, in the units of the columns; None where nothing is printed. Suites have the names that
`--environment` takes. Columns that need more than their name:

* `seed/table_1`, speeds: `accelerator` is its kind, as in Table 3, and `accelerators` their number, of which
  `training_accelerators` train. `environments` are for R2D2 the actors, which have one each. `actor_cpus` are
  the CPU cores of all actors, and `batch_size` is in unrolls. `frames_per_second` are environment frames.
  `ratio` is the speed relative to the baseline of the suite and map size, which has none itself, and
  `preset` is our file in `configs/paper/seed/`, without `.flags`, also in tables 4, 5 and 12.
* `seed/table_2`, score differences on Football's hard match: `rewards` are as `--rewards` takes them.
  `median` and `maximum` are over 40 combinations of settings, each averaged over 3 seeds.
* `seed/table_3`, prices: US dollars per hour in September 2019.
* `seed/table_4` (DeepMind Lab), `table_5` (Football) and `table_12` (DeepMind Lab on one P100), costs:
  `actors` are processes and `cpus` the cores of all of them. `dollars` are US dollars for 10^9 environment
  frames, and `ratio` is IMPALA's cost relative to SEED's, in SEED's rows.
* `seed/table_11`, costs of actors and learner: US dollars for 10^9 environment frames.
* `seed/table_13`, latencies: milliseconds from an actor's request to its action.
* `accelerated_methods/table_1`: thousands of agent steps per second, without training.
* `accelerated_methods/table_2` and `table_3`: hours for 50 million agent steps, by the number of GPUs.
* `settings`, of both papers: `source` is a table, a section, or a line of the authors' code, `parameter` what
  the paper calls it, and `printed` what it prints. `option` is the name of our option, None if nothing can be
  set: it is always so. `value` is what the option has to be; `>N` stands for any number above N. `presets`
  are those that the value holds for, in `configs/paper/`, as patterns of `fnmatch`.
* `seed/ranges`, of Tables 6 and 7: `kind` is choice or log_uniform, `values` are the choices, or the lowest
  and the highest value, and `sweep` is our file in `configs/sweeps/`, without `.yaml`.
* `contradictions`: two values that a paper gives for the same quantity, and where each one is from.
"""

import contextlib
import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_DATA = Path(__file__).parent / "data"


def read(name: str) -> list[SimpleNamespace]:
    """The rows of a file in `data/`, such as "seed/table_1"; their attributes are its columns."""
    with open(_DATA / f"{name}.csv", newline="", encoding="utf-8") as file:
        return [
            SimpleNamespace(**{column: _value(column, text) for column, text in row.items()})
            for row in csv.DictReader(file)
        ]


def _value(column: str, text: str) -> Any:
    """A cell: a number if it is one and its column is not of text, or several values between spaces."""
    if not text or column in ("printed", "value", "first", "second"):
        return text or None
    if column in ("presets", "values"):
        return tuple(_value("", item) for item in text.split())
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
