"""Loss of algorithms with a single objective, and its variables."""

from seed_rl.algorithms.base import LOSS


def loss_of(algorithm, sample):
    """The loss of each unroll, `[B]`."""
    return algorithm.losses(sample).by_objective[LOSS]


def variables_of(algorithm):
    """The variables that the loss is differentiated by."""
    return algorithm.objectives[LOSS].variables
