"""Sampling alone: acting in Breakout without any training, against processes and environments of each.

It is the measurement of Stooke & Abbeel (2018), section 5.2, Table 1 and Figure 2: A3C's network with
padding 1 plays frames of 104x80, four stacked. Each process has two groups of environments, so that one
steps while the other waits for its actions. The run is `seed_rl train` with DQN, whose replay never has
enough agent steps to train on. Each speed is compared with that of the same processes without inference (the
dashed line of Figure 2), measured before and after it by benchmarks.parts.

Flags of `seed_rl train` may be added (as --name=value) and override the defaults.
"""

import dataclasses
import itertools
import statistics
import sys
from collections.abc import Sequence

from benchmarks.harness import check_counts, part_rates, print_result, print_table, steady_run
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options, option

_FLAGS = (
    *("--environment=atari", "--agent=dqn", "--game=Breakout", "--full_action_space=false"),
    *("--halve_screen", "--frame_stack=4", "--torso=shallow", "--conv_padding=1", "--terminal_on_life_loss"),
    *("--num_env_groups=2", "--num_eval_envs=0", "--log_period_secs=0.5"),
    # Never full: nothing is trained on. A run has fewer agent steps than these.
    *("--replay_buffer_size=100000", "--replay_buffer_min_size=100000", "--replay_ratio=0.000001"),
)


@dataclasses.dataclass(frozen=True)
class SamplingConfig(Options):
    """Settings of the benchmark of sampling."""

    actors: str = option("1,2", "Processes, separated by commas.")
    envs: str = option("2,8,16,32", "Environments of each process, even numbers, separated by commas.")
    seconds: float = option(6.0, "Seconds of each measurement.", above=0)
    warm_up_secs: float = option(4.0, "Seconds before each measurement.", at_least=0)
    rounds: int = option(1, "Rounds, each with all cases in turn.", at_least=1)

    def validate(self) -> None:
        """Checks the lists."""
        check_counts("actors", self.actors)
        check_counts("envs", self.envs)
        if any(int(envs) % 2 for envs in self.envs.split(",")):
            raise ValueError(f"--envs={self.envs} is not valid; two groups share them, so give even numbers.")


def main(argv: list[str]) -> int:
    """Measures all cases; prints a table and the result."""
    config, run_flags = parse_options(argv, __doc__ or "", SamplingConfig, pass_through=True)
    cases = list(itertools.product(*(map(int, text.split(",")) for text in (config.actors, config.envs))))
    rounds = [{case: _measure(config, *case, run_flags) for case in cases} for _ in range(config.rounds)]
    results = []
    for actors, envs in cases:
        sampled, alone = (statistics.median(found[actors, envs][i] for found in rounds) for i in range(2))
        results.append(
            {
                **{"processes": actors, "environments": actors * envs, "agent_steps_per_second": sampled},
                "per_process": sampled / actors,
                "without_inference": alone,
                "ratio": statistics.median(
                    found[actors, envs][0] / found[actors, envs][1] for found in rounds
                ),
            }
        )
    columns = ("processes", "environments", "agent steps/s", "per process", "without inference", "ratio")
    print_table("Sampling alone: Breakout", columns, [list(result.values()) for result in results])
    print_result({"cases": results})
    return 0


def _measure(config: SamplingConfig, actors: int, envs: int, run_flags: Sequence[str]) -> tuple[float, float]:
    """Agent steps/s of a run without training, and of its environments alone."""
    size = (f"--num_actors={actors}", f"--env_batch_size={envs}")
    # Half of the environments are in a full batch, so that the other half steps meanwhile.
    flags = (*_FLAGS, *size, f"--inference_batch_size={actors * envs // 2}", *run_flags)
    before = _alone(config, flags)
    run = steady_run(flags, config.warm_up_secs, config.seconds, begins_with="agent_steps")
    return run.rate("agent_steps"), statistics.fmean([before, _alone(config, flags)])


def _alone(config: SamplingConfig, flags: Sequence[str]) -> float:
    return part_rates("environment", config.seconds / 4, flags)["environment"]


if __name__ == "__main__":
    run_main(main, sys.argv)
