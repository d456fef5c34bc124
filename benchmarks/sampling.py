"""Sampling alone: agent steps/s on Pong without training, beside Table 1 of Stooke & Abbeel (2018).

A3C's network with a padding of 1 plays frames of 104x80, four stacked. Two actors share the simulators, and
send to the learner as in training. It is `seed_rl train` with DQN, which gets too few agent steps for an
update.

There are two ways:

* `synchronous`: a barrier at each agent step. All simulators are acted on in one batch, which waits for the
  slowest, and no time-out ends that.
* `asynchronous`: each actor has two groups, of which one steps while the other is acted on. A batch is one
  group, so nobody waits for another one.

The paper's barrier is at every fifth agent step, across its GPUs, and its groups alternate in both ways. Its
game is Breakout, and its machine has 40 cores and 8 GPUs: so what compares is the ratio of the two ways.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import itertools
import sys
from collections.abc import Sequence

from benchmarks.harness import check_counts, medians, print_result, print_table, steady_run
from seed_rl.flags.command_line import parse_options
from seed_rl.options import Options, option
from seed_rl.paper import tables

WAYS = ("synchronous", "asynchronous")

_ACTORS = 2
_FLAGS = (
    *("--environment=atari", "--agent=dqn", "--game=Pong", "--full_action_space=false", "--halve_screen"),
    *(
        "--frame_stack=4",
        "--torso=shallow",
        "--conv_padding=1",
        "--terminal_on_life_loss",
        "--log_period_secs=1",
    ),
    *("--num_eval_envs=0", f"--num_actors={_ACTORS}", "--replay_buffer_size=50000"),
    # The first update of 32 transitions comes after 32 million agent steps.
    *("--replay_buffer_min_size=50000", "--batch_size=32", "--replay_ratio=0.000001"),
)


@dataclasses.dataclass(frozen=True)
class SamplingConfig(Options):
    """Settings of the benchmark of sampling."""

    simulators: str = option("64,128,256,512", "Simulators in all, multiples of 4, separated by commas.")
    seconds: float = option(12.0, "Seconds of each run that are measured.", above=0)
    warm_up_secs: float = option(4.0, "Seconds before that.", at_least=0)
    rounds: int = option(1, "Rounds, each with all cases in turn.", at_least=1)

    def validate(self) -> None:
        """Checks the counts."""
        check_counts("simulators", self.simulators)
        if any(int(count) % (2 * _ACTORS) for count in self.simulators.split(",")):
            raise ValueError(f"--simulators={self.simulators} is not valid; give multiples of 4.")


def main(argv: list[str]) -> int:
    """Measures all cases; prints a table and the result."""
    config, rest = parse_options(argv, __doc__ or "", SamplingConfig, pass_through=True)
    counts = [int(count) for count in config.simulators.split(",")]
    rounds: list[dict[str, float]] = []
    for _ in range(config.rounds):
        figures: dict[str, float] = {}
        rounds.append(figures)
        for count, way in itertools.product(counts, WAYS):
            figures[f"{way}_{count}"] = measure(config, count, way, rest)
            print(f"{way}, {count}: {figures[f'{way}_{count}']:,.0f}", file=sys.stderr, flush=True)
    ours, paper = medians(rounds), {row.simulators: row for row in tables.read("accelerated_methods/table_1")}
    rows = []
    for count in counts:
        cells = [(ours[f"{way}_{count}"], getattr(paper.get(count), way, None)) for way in WAYS]
        (sync, theirs_sync), (async_, theirs_async) = cells
        printed = [cell and f"{cell}K" for cell in (theirs_sync, theirs_async)]
        ratio = theirs_async / theirs_sync if theirs_sync else None
        rows.append([count, sync, printed[0], async_, printed[1], async_ / sync, ratio])
    columns = [
        "simulators",
        "synchronous",
        "paper",
        "asynchronous",
        "paper",
        "asynchronous / synchronous",
        "paper",
    ]
    print_table("Sampling alone, in agent steps/s", columns, rows)
    print_result({"agent_steps_per_second": ours})
    return 0


def measure(config: SamplingConfig, count: int, way: str, rest: Sequence[str] = ()) -> float:
    """Agent steps/s of one run."""
    groups = 1 if way == "synchronous" else 2
    flags = [
        *(*_FLAGS, f"--env_batch_size={count // _ACTORS}", f"--num_env_groups={groups}"),
        f"--inference_batch_size={count if way == 'synchronous' else count // _ACTORS // groups}",
        *(["--inference_timeout_ms=60000"] if way == "synchronous" else []),
        *rest,
    ]
    run = steady_run(flags, config.warm_up_secs, config.seconds, begins_with="agent_steps")
    steps, seconds = (run.periods[-1][name] - run.first[name] for name in ("agent_steps", "seconds"))
    if run.periods[-1]["updates"]:
        raise RuntimeError("The learner trained; leave out --replay_ratio and other settings of replay.")
    return steps / seconds
