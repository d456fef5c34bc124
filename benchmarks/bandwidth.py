"""Bytes on the wire per agent step of one environment, for each suite.

Up: the serialized message of a step (`FromActor`) of 8 environments, divided by 8. Down: the response. For
comparison: the same step with a byte for each bool, and also with all the frames that the suite's preset
stacks, which actors that stack frames themselves would send. A suite that is not installed is reported and
skipped.
"""

import dataclasses
import sys
from typing import Any

import numpy as np

from benchmarks.harness import print_result, print_table
from seed_rl.environments import registry
from seed_rl.environments.making import suite_spec
from seed_rl.environments.suites.dmlab import ACTIONS, DmlabConfig
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import run_main
from seed_rl.options import Options
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_spec, pack_like
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

_NUM_ENVS = 8

# (suite, settings, frames that are stacked)
_ROWS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("catch", {}, 1),
    ("gym", {"game": "CartPole-v1"}, 1),
    ("gym", {"game": "HalfCheetah-v5"}, 1),
    ("gym", {"game": "minigrid:MiniGrid-DoorKey-5x5-v0"}, 1),
    ("minatar", {"game": "breakout"}, 1),
    ("minatar", {"game": "seaquest"}, 1),
    ("atari", {"game": "Pong"}, 4),
    ("dmlab", {"game": "rooms_watermaze"}, 1),
    ("football", {"map_size": "96x72"}, 4),
    ("football", {"map_size": "120x90"}, 4),
    ("football", {"map_size": "144x108"}, 4),
)


@dataclasses.dataclass(frozen=True)
class BandwidthBenchmarkConfig(Options):
    """The bandwidth benchmark has no settings."""


def main(argv: list[str]) -> int:
    """Prints the bytes per agent step of each installed suite."""
    parse_options(argv, __doc__ or "", BandwidthBenchmarkConfig)
    rows, figures = [], {}
    for suite, settings, num_frames in _ROWS:
        name = " ".join([suite, *settings.values()])
        try:
            spec = _spec(suite, settings)
        except ImportError as error:
            print(f"Skipped: {name}. {error}", file=sys.stderr)
            continue
        figures[name] = _figures(spec, num_frames)
        rows.append([name, *figures[name].values()])
    columns = ["suite", "up", "down", "up, not packed", "up, not packed, stacked", "stacked / up"]
    print_table(f"Bytes per agent step and environment, {_NUM_ENVS} environments in a message", columns, rows)
    print_result({"benchmark": "bandwidth", "figures": figures})
    return 0


def _spec(suite: str, settings: dict[str, Any]) -> EnvironmentSpec:
    if suite == "dmlab":  # Its engine cannot be installed everywhere, and its spec is known without it.
        config = DmlabConfig(**settings)
        frame = ArraySpec((config.height, config.width, 3), "uint8")
        return EnvironmentSpec(frame, ArraySpec((), "int32", (0,), (len(ACTIONS) - 1,)))
    found = registry.suite(suite)
    return suite_spec(found, found.config_class(**settings), 0)


def _figures(spec: EnvironmentSpec, num_frames: int) -> dict[str, Any]:
    leaves = [leaf.unpacked for _, leaf in flatten_spec(spec.observation)]
    plain = pack_like(spec.observation, leaves)
    stacked = pack_like(spec.observation, [_stacked(leaf, num_frames) for leaf in leaves])
    up, unpacked, most = (_up(nest) for nest in (spec.observation, plain, stacked))
    actions = pb.FromLearner(actions=[pb.Actions(group=0, actions=spec.action.zeros(_NUM_ENVS).tobytes())])
    return {
        "up": up,
        "down": actions.ByteSize() / _NUM_ENVS,
        "up_not_packed": unpacked,
        "up_not_packed_stacked": most,
        "stacked_to_up": round(most / up, 1),
    }


def _up(observation: Any) -> float:
    """Bytes of a step's message per environment."""
    codec = StepCodec(EnvironmentSpec(observation, ArraySpec((), "int32", (0,), (1,))))
    arrays = [spec.zeros(_NUM_ENVS) for _, spec in flatten_spec(observation)]
    flags = np.zeros(_NUM_ENVS, bool)
    output = EnvOutput(np.zeros(_NUM_ENVS, np.float32), flags, flags, pack_like(observation, arrays))
    return pb.FromActor(steps=[pb.Step(group=0, records=codec.encode(output))]).ByteSize() / _NUM_ENVS


def _stacked(spec: ArraySpec, num_frames: int) -> ArraySpec:
    return dataclasses.replace(spec, shape=(*spec.shape, num_frames)) if len(spec.shape) > 1 else spec


if __name__ == "__main__":
    run_main(main)
