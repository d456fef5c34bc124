"""A plain loop: CartPole, played from outside. Usage: python plain_loop.py unix:/tmp/seed_rl.sock."""

import sys

import gymnasium

import seed_rl

env = gymnasium.make("CartPole-v1")
with seed_rl.connect(sys.argv[1]) as learner:  # The block ends when training does.
    while True:
        observation, _ = env.reset()
        action = learner.reset(observation)
        while action is not None:  # None: the episode has ended.
            observation, reward, terminated, truncated, _ = env.step(action)
            action = learner.step(observation, reward, terminated, truncated)
