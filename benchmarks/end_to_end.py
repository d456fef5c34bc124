"""Training on Pong, compared with the ceiling set by its parts, each measured alone.

The run is `seed_rl train` with real processes: Nature-CNN 32/64/64 + 512, frames stacked over 4 agent
steps; V-trace with T = 20, feed-forward and with an LSTM of 256 units, and R2D2 with an LSTM of 512 units,
dueling heads of 512, burn-in 40, T = 80 and a replay ratio of 0.75. The other algorithms are feed-forward:
APPO with T = 20; PPO and PQN with T = 20, four minibatches and three or two epochs; A2C with T = 5; DQN,
Rainbow and discrete SAC with the replay ratio of 8 of DQN's paper. An agent step costs the machine an
environment step, inference for one observation, and its share of an update. With the rates of
benchmarks.parts, measured before and after the run, the ceiling is
1 / (1/environment + 1/inference + 1/training) agent steps/s. Goal: at least 0.85 of it.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import check_names, medians, print_result, print_table, steady_run
from benchmarks.parts import part_rates
from seed_rl.flags.command_line import parse_options
from seed_rl.launch.plan import LocalConfig, resolve_run
from seed_rl.options import Options, option

GOAL = 0.85

RUN_FLAGS = (f"--flagfile={Path(__file__).with_suffix('.flags')}",)

_TRANSITIONS = (
    "--batch_size=32 --replay_ratio=8 --replay_buffer_size=50000 --replay_buffer_min_size=2000 "
    "--num_eval_envs=0"
)
_RAINBOW = (
    "--n_steps=3 --double --dueling --torso_units=0 --head_size=512 --exploration=noisy "
    "--distribution=categorical --v_min=-10 --v_max=10 --priority_exponent=0.5 "
    "--importance_sampling_exponent=0.4"
)
_R2D2 = "--lstm_size=512 --unroll_length=80 --burn_in=40 --batch_size=8"

VARIANTS = {
    name: tuple(flags.split())
    for name, flags in {
        "feed_forward": "--lstm_size=0",
        "lstm": "--lstm_size=256",
        "r2d2": f"--agent=r2d2 {_R2D2} --replay_buffer_size=2000 --replay_buffer_min_size=70",
        "appo": "--agent=appo --lstm_size=0",
        "ppo": "--agent=ppo --lstm_size=0 --unroll_length=20 --batch_size=16 --epochs=3",
        "pqn": "--agent=pqn --unroll_length=20 --batch_size=16 --epochs=2",
        "a2c": "--agent=a2c --lstm_size=0 --unroll_length=5 --batch_size=64",
        "dqn": f"--agent=dqn {_TRANSITIONS}",
        "rainbow": f"--agent=dqn {_TRANSITIONS} {_RAINBOW}",
        # Each of the two actors acts for its own environments.
        "actor": "--inference=actor --lstm_size=0 --inference_batch_size=16",
        "sac": f"--agent=sac {_TRANSITIONS}",
    }.items()
}


@dataclasses.dataclass(frozen=True)
class EndToEndConfig(Options):
    """Settings of the end-to-end benchmark."""

    seconds: float = option(20.0, "Seconds of each run that are measured.", above=0)
    warm_up_secs: float = option(
        8.0, "Seconds of warm-up of each run after its first update; not measured.", at_least=0
    )
    part_secs: float = option(4.0, "Seconds for which each part is measured.", above=0)
    rounds: int = option(2, "Rounds, each with the parts and the run in turn.", at_least=1)
    variants: str = option("feed_forward,lstm,r2d2", f"Variants, separated by commas: {', '.join(VARIANTS)}.")

    def validate(self) -> None:
        """Checks the variants."""
        check_names("variants", self.variants, tuple(VARIANTS))


def main(argv: list[str]) -> int:
    """Measures each variant and its parts, and prints the ratios."""
    config, rest = parse_options(argv, __doc__ or "", EndToEndConfig, pass_through=True)
    results: dict[str, Any] = {}
    for variant in config.variants.split(","):
        run_flags = [*RUN_FLAGS, *VARIANTS[variant], *rest]
        line = resolve_run(["train", *run_flags])  # Bad flags end the benchmark here.
        line.read(LocalConfig)
        repeats = line.environment_config().num_action_repeats
        rounds = [_round(config, run_flags, repeats) for _ in range(config.rounds)]
        results[variant] = {
            "ratio": statistics.median(
                r["frames_per_second"] / r["ceiling_frames_per_second"] for r in rounds
            ),
            **medians(rounds),
        }
        print(f"{variant}: {results[variant]['ratio']:.2f} of the ceiling", file=sys.stderr, flush=True)
    _print(config, results, rest)
    return 0


def _round(config: EndToEndConfig, run_flags: Sequence[str], repeats: int) -> dict[str, Any]:
    """Measures parts, run, and parts again, because the machine's speed drifts: figures by name."""
    before = _all_parts(config, run_flags)
    run = steady_run(run_flags, config.warm_up_secs, config.seconds)
    after = _all_parts(config, run_flags)
    rates = {name: statistics.fmean((before[name], after[name])) for name in before}
    return {
        **{f"{name}_agent_steps_per_second": rate for name, rate in rates.items()},
        "ceiling_frames_per_second": repeats / sum(1 / rate for rate in rates.values()),
        "frames_per_second": run.frames_per_second,
    }


def _all_parts(config: EndToEndConfig, run_flags: Sequence[str]) -> dict[str, float]:
    names = ("environment", "inference,training")
    found = [part_rates(several, config.part_secs, run_flags) for several in names]
    return {**found[0], **found[1]}


def _print(config: EndToEndConfig, results: Mapping[str, Any], rest: Sequence[str]) -> None:
    parts = ("environment", "inference", "training")
    names = [f"{part}_agent_steps_per_second" for part in parts]
    names += ["ceiling_frames_per_second", "frames_per_second", "ratio"]
    rows = [[variant, *(result[name] for name in names)] for variant, result in results.items()]
    title = f"End to end: Pong, medians of {config.rounds} rounds; parts in agent steps/s, with all cores"
    if rest:
        title += f"; {' '.join(rest)}"
    print_table(title, ["variant", *parts, "ceiling frames/s", "run frames/s", "ratio"], rows)
    print_result(
        {
            "benchmark": "end_to_end",
            "goal": GOAL,
            "ratios": {variant: result["ratio"] for variant, result in results.items()},
            "figures": results,
        }
    )
