"""A controller that is called back with each reading, as in ROS. Usage: python callbacks.py ADDRESS."""

import sys

import gymnasium

import seed_rl


class Controller:
    """Answers readings of sensors with commands."""

    def __init__(self, address):
        self.learner, self.is_running = seed_rl.connect(address), False

    def on_reading(self, observation, reward, fell, timed_out):
        """Answers a reading; None: the plant is to be started again."""
        reading = observation, reward, fell, timed_out
        command = self.learner.step(*reading) if self.is_running else self.learner.reset(observation)
        self.is_running = command is not None
        return command


if __name__ == "__main__":
    plant, controller, command = gymnasium.make("CartPole-v1"), Controller(sys.argv[1]), None
    with controller.learner:
        while True:  # Stands for what calls back.
            reading = (plant.reset()[0], 0.0, False, False) if command is None else plant.step(command)[:4]
            command = controller.on_reading(*reading)
