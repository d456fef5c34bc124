"""Compression of stored steps: lossless, thread-safe, and without the interpreter lock."""

import threading

import numpy as np
import zstandard

# Game frames are simple pictures: the fastest levels already save nearly as much as higher ones.
_LEVEL = 1
# Bytes that may repeat earlier ones are looked for in the last 256 KiB: dozens of frames. Below 512 KiB,
# the library compresses without a branch that is hard to predict: a quarter faster on the hardest game.
_WINDOW_LOG = 18


class Uncompressed:
    """Stores bytes as they are."""

    def compress(self, raw: np.ndarray) -> bytes:
        """Compresses bytes (uint8 `[N]`)."""
        return raw.tobytes()

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """The inverse of `compress`, into a uint8 array `[N]` of the right size.

        Raises:
          ValueError: the bytes are not compressed ones, or decompress to another size.
        """
        raw[:] = np.frombuffer(compressed, np.uint8)


class Zstandard(Uncompressed):
    """Zstandard (RFC 8878), each time as a single frame."""

    def __init__(self) -> None:
        self._local = threading.local()  # Its contexts must not be shared by threads.

    def compress(self, raw: np.ndarray) -> bytes:
        """See `Uncompressed.compress`."""
        if not hasattr(self._local, "compressor"):
            settings = zstandard.ZstdCompressionParameters(
                compression_level=_LEVEL, window_log=_WINDOW_LOG, write_content_size=True
            )
            self._local.compressor = zstandard.ZstdCompressor(compression_params=settings)
        return self._local.compressor.compress(raw)

    def decompress(self, compressed: bytes | memoryview, raw: np.ndarray) -> None:
        """See `Uncompressed.decompress`; fresh memory for the result would cost more than decompressing."""
        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            size = self._local.decompressor.stream_reader(compressed).readinto(raw)
        except zstandard.ZstdError as error:
            raise ValueError(f"These bytes cannot be decompressed ({error}).") from None
        if size != len(raw):
            raise ValueError(f"These bytes decompress to {size} bytes, not to {len(raw)}.")


# By what --replay_compression calls them.
COMPRESSORS = {"zstd": Zstandard, "none": Uncompressed}
