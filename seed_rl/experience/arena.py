"""Memory for many small blobs that go in the order in which they came."""

import mmap


class Arena:
    """Puts blobs one after the other into large segments of memory. Not thread-safe.

    A segment goes back to the operating system when the last of its blobs is dropped. Blobs that are
    allocated one by one, among the short-lived buffers of compression, leave holes in the heap that nothing
    fits into: with Pong's, the process grew to a multiple of what they take.
    """

    def __init__(self, segment_bytes: int):
        """Allocates nothing yet; segments are of `segment_bytes`, or of a blob's size where that is more."""
        self._segment_bytes = segment_bytes
        self._segment = memoryview(b"")
        self._used = 0

    def put(self, blob: bytes | memoryview) -> memoryview:
        """Copies a blob; a reference to what is returned keeps it alive."""
        start, stop = self._used, self._used + len(blob)
        if stop > len(self._segment):
            self._segment = memoryview(mmap.mmap(-1, max(self._segment_bytes, len(blob))))
            start, stop = 0, len(blob)
        self._segment[start:stop] = blob
        self._used = stop
        return self._segment[start:stop]
