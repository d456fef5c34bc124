"""Compression of stored steps, behind one interface."""

import threading
from typing import Protocol

import numpy as np
import zstandard

NAMES = ("zstd", "none")

# Game frames are simple pictures: the fastest levels already save nearly as much as higher ones.
_LEVEL = 1
# Bytes that may repeat earlier ones are looked for in the last 256 KiB: dozens of frames. Below 512 KiB,
# the library compresses without a branch that is hard to predict: a quarter faster on the hardest game.
_WINDOW_LOG = 18


class Compressor(Protocol):
    """A lossless and thread-safe compressor that releases the interpreter lock while it works."""

    def compress(self, raw: np.ndarray) -> bytes:
        """Compresses bytes (uint8 `[N]`)."""

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """The inverse of `compress`, into a uint8 array `[N]` of the right size.

        Raises:
          ValueError: the bytes are not compressed ones, or decompress to another size.
        """


class Zstandard:
    """Zstandard (RFC 8878)."""

    def __init__(self) -> None:
        self._local = threading.local()  # Its contexts must not be shared by threads.

    def compress(self, raw: np.ndarray) -> bytes:
        """Compresses into a single Zstandard frame."""
        if not hasattr(self._local, "compressor"):
            settings = zstandard.ZstdCompressionParameters(
                compression_level=_LEVEL, window_log=_WINDOW_LOG, write_content_size=True
            )
            self._local.compressor = zstandard.ZstdCompressor(compression_params=settings)
        return self._local.compressor.compress(raw)

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """See `Compressor.decompress`; fresh memory for the result would cost more than decompressing."""
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            size = self._local.decompressor.stream_reader(compressed).readinto(raw)
        except zstandard.ZstdError as error:
            raise ValueError(f"These bytes cannot be decompressed ({error}).") from None
        if size != len(raw):
            raise ValueError(f"These bytes decompress to {size} bytes, not to {len(raw)}.")


class Uncompressed:
    """Stores bytes as they are."""

    def compress(self, raw: np.ndarray) -> bytes:
        """Copies the bytes."""
        return raw.tobytes()

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """See `Compressor.decompress`."""
        raw[:] = np.frombuffer(compressed, np.uint8)


def make_compressor(name: str) -> Compressor:
    """Creates the compressor of this name, one of NAMES.

    Raises:
      ValueError: there is no compressor of this name.
    """
    if name == "zstd":
        return Zstandard()
    if name == "none":
        return Uncompressed()
    raise ValueError(f"--replay_compression={name} is not valid; choose one of: {', '.join(NAMES)}.")
