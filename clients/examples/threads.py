"""Simulators in threads of one program, each attached by itself. Usage: python threads.py ADDRESS COUNT."""

import sys
import threading

import gymnasium

import seed_rl


def simulate(address, seed):
    """Steps one simulator until training ends."""
    simulator = gymnasium.make("CartPole-v1")
    simulator.reset(seed=seed)
    with seed_rl.connect(address) as learner:
        while True:
            action = learner.reset(simulator.reset()[0])
            while action is not None:
                action = learner.step(*simulator.step(action)[:4])


if __name__ == "__main__":
    simulators = [threading.Thread(target=simulate, args=(sys.argv[1], i)) for i in range(int(sys.argv[2]))]
    for simulator in simulators:
        simulator.start()
    for simulator in simulators:
        simulator.join()
