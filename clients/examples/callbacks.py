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
        if not self.is_running:
            self.is_running = True
            return self.learner.reset(observation)
        command = self.learner.step(observation, reward, fell, timed_out)
        self.is_running = command is not None
        return command


if __name__ == "__main__":
    plant, controller, results = gymnasium.make("CartPole-v1"), Controller(sys.argv[1]), ()
    try:
        while True:  # Stands for what calls back.
            if not controller.is_running:
                results = (plant.reset()[0], 0.0, False, False)
            command = controller.on_reading(*results)
            if command is not None:
                results = plant.step(command)[:4]
    except seed_rl.TrainingEnded:
        controller.learner.close()
