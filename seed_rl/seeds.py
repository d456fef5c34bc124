"""Seeds that are derived from a run's --seed. Imports NumPy only."""

import numpy as np

# The largest --seed.
LARGEST_SEED = 2**63


def derived_seed(seed: int, *path: int) -> int:
    """A seed from 0 to 2^31 - 1, which every random generator takes: also NumPy's old one, and TensorFlow's.

    Args:
      seed: the run's, 0 to 2^63.
      path: what the seed is for: the id of an environment, or the number of an evaluation episode. Each path
        has a seed of its own, which depends on no other (NumPy's `SeedSequence`).
    """
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1)[0] >> 1)
