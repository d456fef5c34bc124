"""Messages of a learner about its policy."""

import json

from seed_rl.devices.publisher import checksum
from seed_rl.wire.generated import inference_pb2 as pb


def description(algorithm, settings):
    """The policy of a V-trace learner with these settings, without weights."""
    texts = {name: json.dumps(value) for name, value in settings.items()}
    return pb.Policy(agent="vtrace", settings=texts, network=checksum(algorithm.policy))
