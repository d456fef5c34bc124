"""Runs Sample Factory's Atari example (sample-factory 2.1.1), in a virtual environment of its own.

It plays games by the ids that Gymnasium 0.29 had; ale-py only registers those when it is asked to. The
workers import this file again, so that they have them too.
"""

import sys

from ale_py.registration import register_v0_v4_envs

register_v0_v4_envs()

if __name__ == "__main__":
    from sf_examples.atari.train_atari import main

    sys.exit(main())
