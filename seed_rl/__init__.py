"""seed_rl: scalable, efficient deep reinforcement learning with central inference, on TensorFlow 2."""

__version__ = "1.0.0rc1"

import os

# gRPC's core reads this when it is imported. It would write what peers send as it is, escape sequences too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
