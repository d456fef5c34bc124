"""Compression of stored steps, behind one interface."""

import threading
from typing import Protocol

import numpy as np
import zstandard

NAMES = ("zstd", "none")

# Frames of games are simple pictures: the fastest levels already take out nearly all that higher ones do.
_LEVEL = 1


class Compressor(Protocol):
    """Lossless, thread-safe, and without the interpreter lock while it works."""

    def compress(self, raw: np.ndarray) -> bytes:
        """The same bytes (uint8 `[N]`) in fewer."""

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """The inverse of `compress`, into an array uint8 `[N]` of the right size.

        Raises:
          ValueError: these are not so many bytes, or not compressed ones.
        """


class Zstandard:
    """Zstandard (RFC 8878)."""

    def __init__(self) -> None:
        self._local = threading.local()  # Its contexts must not be shared between threads.

    def compress(self, raw: np.ndarray) -> bytes:
        """One frame."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(_LEVEL)
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
            raise ValueError(f"There are {size} bytes where {len(raw)} are needed.")


class Uncompressed:
    """Leaves everything as it is."""

    def compress(self, raw: np.ndarray) -> bytes:
        """A copy."""
        return raw.tobytes()

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """See `Compressor.decompress`."""
        raw[:] = np.frombuffer(compressed, np.uint8)


def make_compressor(name: str) -> Compressor:
    """The compressor of this name, one of NAMES.

    Raises:
      ValueError: there is none of this name.
    """
    if name == "zstd":
        return Zstandard()
    if name == "none":
        return Uncompressed()
    raise ValueError(f"--replay_compression={name} is not valid; choose one of: {', '.join(NAMES)}.")
