"""Serving of actors that have the policy: a core that stores unrolls, and the policy to send."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from seed_rl.algorithms.base import Algorithm
from seed_rl.devices.publisher import WeightsReader
from seed_rl.experience.base import StepStore
from seed_rl.experience.fifo import BatchStore
from seed_rl.inference.unroll_core import UnrollCore
from seed_rl.inference.unrolls import UnrollCodec
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb


def make(
    algorithm: Algorithm,
    spec: EnvironmentSpec,
    settings: Mapping[str, Any],
    store: StepStore,
    weights: WeightsReader,
    metrics: BatchMetrics,
) -> tuple[UnrollCore, Callable[[], pb.Policy]]:
    """Makes the core, and a function that gives the policy with the weights as they are then.

    `settings` of the run have `agent_name` and `agent`; `store` is the queue's.
    """
    assert isinstance(store, BatchStore)
    codec = UnrollCodec(algorithm.policy, spec, algorithm.unroll.length)
    description = pb.Policy(
        agent=settings["agent_name"],
        settings={name: json.dumps(value) for name, value in settings["agent"].items()},
        network=weights.network,
        unroll_bytes=codec.size.record_bytes,
        unroll_length=codec.length,
    )

    def policy() -> pb.Policy:
        message = pb.Policy(weights=weights.newer_than(-1))
        message.MergeFrom(description)
        return message

    return UnrollCore(codec, store, weights, metrics), policy
