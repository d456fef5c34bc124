"""Compression of stored steps, behind one interface."""

import threading
from typing import Protocol

import zstandard

NAMES = ("zstd", "none")

# Frames of games are simple pictures: the fastest levels already take out nearly all that higher ones do.
_LEVEL = 1


class Compressor(Protocol):
    """Lossless, thread-safe, and without the interpreter lock while it works."""

    def compress(self, raw: bytes) -> bytes:
        """The same in fewer bytes."""

    def decompress(self, compressed: bytes | memoryview) -> bytes:
        """The inverse of `compress`."""


class Zstandard:
    """Zstandard (RFC 8878)."""

    def __init__(self) -> None:
        self._local = threading.local()  # Its contexts must not be shared between threads.

    def compress(self, raw: bytes) -> bytes:
        """One frame, its length inside."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(_LEVEL)
        return self._local.compressor.compress(raw)

    def decompress(self, compressed: bytes | memoryview) -> bytes:
        """The inverse of `compress`."""
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        return self._local.decompressor.decompress(compressed)


class Uncompressed:
    """Leaves everything as it is."""

    def compress(self, raw: bytes) -> bytes:
        """`raw` itself."""
        return raw

    def decompress(self, compressed: bytes | memoryview) -> bytes:
        """`compressed` itself, or a copy where it is a view."""
        return bytes(compressed)


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
