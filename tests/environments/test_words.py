import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from seed_rl.environments.words import hash_words


def test_words():
    assert hash_words("").tolist() == [0] * 16
    np.testing.assert_array_equal(hash_words("Pick the RED hat."), hash_words(" pick, the red  hat"))
    assert hash_words("red")[0] == hash_words("the red")[1]
    many = hash_words(" ".join(f"word{n}" for n in range(40)))
    assert many.shape == (16,) and (many > 0).all()
    numbers = {int(hash_words(f"word{n}")[0]) for n in range(5000)}
    assert min(numbers) == 1 and max(numbers) == 999
    assert len(numbers) > 950


def test_numbers_of_words_are_the_same_in_every_process():
    program = (
        "from seed_rl.environments.words import hash_words; print(hash_words('pick the red hat').tolist())"
    )
    root = str(Path(__file__).parents[2])
    texts = []
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
        texts.append(done.stdout.strip())
    assert texts == [str([859, 274, 346, 229] + [0] * 12)] * 2
