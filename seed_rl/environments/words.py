"""Turns text into numbers that a network can take."""

import re
import zlib

import numpy as np

NUM_WORDS = 16
VOCABULARY_SIZE = 1000


def hash_words(text: str) -> np.ndarray:
    """The first 16 words as numbers 1 to 999, then zeros: int32 `[16]`.

    Letter case and punctuation are ignored. A word's number is the same in every process and version; two
    words may share a number.
    """
    numbers = np.zeros(NUM_WORDS, np.int32)
    words = re.findall(r"\w+", text.lower())[:NUM_WORDS]
    numbers[: len(words)] = [zlib.crc32(word.encode()) % (VOCABULARY_SIZE - 1) + 1 for word in words]
    return numbers
