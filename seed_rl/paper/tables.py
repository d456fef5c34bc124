"""The tables of the two papers, the settings in their text, and where a paper contradicts itself.

The papers are SEED RL (Espeholt et al., 2020), in `data/seed/`, and "Accelerated Methods for Deep
Reinforcement Learning" (Stooke & Abbeel, 2018), in `data/accelerated_methods/`. `table_N.csv` has the rows of
Table N in the paper's order. SEED RL's Tables 6 to 9 are in `settings.csv` and `ranges.csv`, and its Table 10
is beside the random scores in `seed_rl/runs/data/atari57_scores.csv` (`seed_rl.runs.scores`).

Numbers are as printed, in the units of the attributes. Suites have the names that `--environment` takes.
"""

import csv
import types
import typing
from pathlib import Path
from typing import NamedTuple, TypeVar

_DATA = Path(__file__).parent / "data"
_SEED, _ACCELERATED = "seed", "accelerated_methods"
_PAPERS = (_SEED, _ACCELERATED)

RowT = TypeVar("RowT", bound=tuple)


class Speed(NamedTuple):
    """A row of SEED RL's Table 1.

    Attributes:
      accelerator: its kind, as in Table 3.
      accelerators: their number.
      training_accelerators: those that train; None where the table does not say.
      environments: for R2D2 the actors, which have one environment each.
      actor_cpus: CPU cores of all actors.
      batch_size: unrolls.
      frames_per_second: environment frames.
      ratio: speed relative to the baseline of the suite and map size; None for baselines.
      preset: our file in `configs/paper/seed/`, without `.flags`; None for baselines.
    """

    suite: str
    architecture: str
    model: str
    accelerator: str
    accelerators: int
    training_accelerators: int | None
    environments: int
    actor_cpus: int | None
    batch_size: int
    frames_per_second: int
    ratio: float | None
    preset: str | None


class FootballScore(NamedTuple):
    """A row of SEED RL's Table 2: the score difference on Football's hard match.

    Attributes:
      rewards: as `--rewards` takes them.
      median: over 40 combinations of settings, each averaged over 3 seeds.
      maximum: over the same.
    """

    rewards: str
    architecture: str
    accelerator: str
    accelerators: int
    model: str
    median: float | None
    maximum: float


class Price(NamedTuple):
    """A row of SEED RL's Table 3: US dollars per hour in September 2019."""

    resource: str
    dollars_per_hour: float


class Cost(NamedTuple):
    """A row of SEED RL's Table 4, 5 or 12.

    Attributes:
      actors: processes.
      cpus: CPU cores of all actors.
      frames_per_second: environment frames.
      dollars: US dollars for 10^9 environment frames.
      ratio: IMPALA's cost relative to SEED's; None for IMPALA.
    """

    architecture: str
    model: str
    accelerator: str
    accelerators: int
    actors: int
    cpus: int
    environments: int
    frames_per_second: int
    dollars: float
    ratio: float | None


class CostSplit(NamedTuple):
    """A row of SEED RL's Table 11: US dollars for 10^9 environment frames."""

    suite: str
    model: str
    architecture: str
    actors_dollars: float
    learner_dollars: float
    total_dollars: float


class Latency(NamedTuple):
    """A row of SEED RL's Table 13: milliseconds from an actor's request to its action."""

    suite: str
    model: str
    impala_ms: float | None
    seed_ms: float


class SamplingSpeed(NamedTuple):
    """A row of Stooke & Abbeel's Table 1: thousands of agent steps per second, without training."""

    simulators: int
    synchronous: float
    asynchronous: float


class TrainingTime(NamedTuple):
    """A row of Stooke & Abbeel's Table 2 or 3: hours for 50 million agent steps, by the number of GPUs."""

    algorithm: str
    batch_size: int | None
    gpus_1: float | None
    gpus_2: float | None
    gpus_4: float | None
    gpus_8: float | None


class Setting(NamedTuple):
    """A value that a paper gives for a setting.

    Attributes:
      source: a table or a section.
      parameter: what the paper calls it.
      printed: what the paper prints.
      option: the name of our option; None if nothing can be set: it is always so.
      value: what the option has to be; `>N` stands for any number above N.
      presets: those that the value holds for, in `configs/paper/`, as patterns of `fnmatch`.
    """

    source: str
    parameter: str
    printed: str
    option: str | None
    value: str | None
    presets: tuple[str, ...]


class Range(NamedTuple):
    """A range of SEED RL's Table 6 or 7.

    Attributes:
      kind: choice or log_uniform.
      values: the choices, or the lowest and the highest value.
      sweep: our file in `configs/sweeps/`, without `.yaml`.
    """

    source: str
    parameter: str
    option: str
    kind: str
    values: tuple[float, ...]
    sweep: str


class Contradiction(NamedTuple):
    """Two values that a paper gives for the same quantity, and where each one is from."""

    paper: str
    quantity: str
    first: str
    first_source: str
    second: str
    second_source: str


def speeds() -> list[Speed]:
    """SEED RL's Table 1."""
    return _rows(_SEED, "table_1", Speed)


def football_scores() -> list[FootballScore]:
    """SEED RL's Table 2."""
    return _rows(_SEED, "table_2", FootballScore)


def prices() -> dict[str, float]:
    """SEED RL's Table 3: US dollars per hour by resource."""
    return dict(_rows(_SEED, "table_3", Price))


def costs(table: int) -> list[Cost]:
    """SEED RL's Table 4 (DeepMind Lab), 5 (Football) or 12 (DeepMind Lab on one P100)."""
    return _rows(_SEED, f"table_{table}", Cost)


def cost_splits() -> list[CostSplit]:
    """SEED RL's Table 11."""
    return _rows(_SEED, "table_11", CostSplit)


def latencies() -> list[Latency]:
    """SEED RL's Table 13."""
    return _rows(_SEED, "table_13", Latency)


def sampling_speeds() -> list[SamplingSpeed]:
    """Stooke & Abbeel's Table 1."""
    return _rows(_ACCELERATED, "table_1", SamplingSpeed)


def training_times() -> list[TrainingTime]:
    """Stooke & Abbeel's Tables 2 and 3."""
    return [row for table in (2, 3) for row in _rows(_ACCELERATED, f"table_{table}", TrainingTime)]


def settings() -> list[Setting]:
    """The settings of both papers: SEED RL's Tables 6 to 9, and what the sections give."""
    return [row for paper in _PAPERS for row in _rows(paper, "settings", Setting)]


def ranges() -> list[Range]:
    """The ranges of SEED RL's Tables 6 and 7."""
    return _rows(_SEED, "ranges", Range)


def contradictions() -> list[Contradiction]:
    """Where the papers contradict themselves."""
    return _rows("", "contradictions", Contradiction)


def _rows(directory: str, name: str, kind: type[RowT]) -> list[RowT]:
    """A file's rows; an empty cell is None, and a cell of several values separates them by spaces."""
    types_of = typing.get_type_hints(kind)
    with open(_DATA / directory / f"{name}.csv", newline="", encoding="utf-8") as file:
        return [
            kind(**{column: _value(types_of[column], text) for column, text in row.items()})
            for row in csv.DictReader(file)
        ]


def _value(kind: typing.Any, text: str) -> typing.Any:
    if isinstance(kind, types.UnionType):
        if not text:
            return None
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is tuple:
        item: type = typing.get_args(kind)[0]
        return tuple(map(item, text.split()))
    return kind(text)
