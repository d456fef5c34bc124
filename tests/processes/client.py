"""A hand-written actor that speaks the protocol in protos/ and sends whatever a test needs."""

import queue
import secrets

import grpc
import numpy as np

from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub

_DEADLINE_SECS = 60.0


class HandWrittenActor:
    """Streams to a learner; arguments are messages, or bytes that are not messages."""

    def __init__(self, address):
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options)
        self.description = InferenceStub(self._channel).Describe(pb.DescribeRequest(), timeout=_DEADLINE_SECS)
        self._run_id = secrets.randbits(64)

    def close(self):
        self._channel.close()

    def hello(self, first_env, num_envs, **changes):
        """A hello that matches the learner, except for `changes`."""
        known = self.description
        hello = pb.Hello(
            protocol_version=known.protocol_version,
            run_id=self._run_id,
            first_env=first_env,
            num_envs=num_envs,
            environment=known.environment,
            settings=known.settings,
            observation=known.observation,
            action=known.action,
            task=first_env // num_envs,
        )
        for name, value in changes.items():
            setattr(hello, name, value)
        return pb.ActRequest(hello=hello)

    def step(self, num_envs, reward=0.0, done=True, observation=0, episodes=()):
        """A step of the right size; all arrays of the observation are filled with `observation`."""
        fields = [("reward", "<f4"), ("done", "?"), ("truncated", "?")]
        fields += [(f"o{i}", o.dtype, tuple(o.shape)) for i, o in enumerate(self.description.observation)]
        records = np.zeros(num_envs, np.dtype(fields))
        records["reward"], records["done"] = reward, done
        for name, *_ in fields[3:]:
            records[name] = observation
        return pb.ActRequest(step=pb.Step(records=records.tobytes(), episodes=episodes))

    def talk(self, *requests):
        """Sends a hello and steps, each after the last answer; returns (answers, status, details)."""
        said = queue.SimpleQueue()
        call = self._channel.stream_stream(
            "/seed_rl.Inference/Act", response_deserializer=pb.ActResponse.FromString
        )(iter(said.get, None), timeout=_DEADLINE_SECS)
        answers = []
        try:
            for index, request in enumerate(requests):
                said.put(request if isinstance(request, bytes) else request.SerializeToString())
                if index > 0:
                    answers.append(next(call).actions)
            said.put(None)
            answers += [answer.actions for answer in call]
        except (grpc.RpcError, StopIteration):
            said.put(None)
        return answers, call.code(), call.details()
