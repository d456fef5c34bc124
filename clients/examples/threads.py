"""Simulators in threads of one program, each attached by itself. Usage: python threads.py ADDRESS COUNT."""

import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium

import seed_rl


def simulate(seed):
    """Steps one simulator until training ends."""
    simulator = gymnasium.make("CartPole-v1")
    simulator.reset(seed=seed)
    with seed_rl.connect(sys.argv[1]) as learner:
        while True:
            action = learner.reset(simulator.reset()[0])
            while action is not None:
                action = learner.step(*simulator.step(action)[:4])


if __name__ == "__main__":
    with ThreadPoolExecutor() as threads:
        list(threads.map(simulate, range(int(sys.argv[2]))))
