"""Exits with 0 if the learner at the address given answers: healthcheck.py unix:/run/seed_rl/learner.sock."""

import sys

import grpc

from seed_rl.wire.generated.inference_pb2 import DescribeRequest
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub

try:
    with grpc.insecure_channel(sys.argv[1]) as channel:
        InferenceStub(channel).Describe(DescribeRequest(), timeout=5)
except grpc.RpcError as error:
    if error.code() is not grpc.StatusCode.UNAUTHENTICATED:  # To ask for the token is an answer, too.
        sys.exit(f"The learner at {sys.argv[1]} does not answer: {error.code().name}.")
