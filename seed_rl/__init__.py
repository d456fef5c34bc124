"""seed_rl: scalable, efficient deep reinforcement learning with central inference, on TensorFlow 2."""

__version__ = "0.1.0"
