"""Memory for many small blobs that are dropped in the order in which they were added."""

import mmap


class Arena:
    """Puts blobs one after the other into large segments of memory. Not thread-safe.

    A segment is returned to the operating system when the last of its blobs is dropped. Blobs allocated one
    by one, among the short-lived buffers of compression, leave holes in the heap that nothing fits into: on
    Pong, the process grew to several times the size of its blobs.
    """

    def __init__(self, segment_bytes: int):
        """Allocates nothing yet; a segment has `segment_bytes`, or the size of a blob that is larger."""
        self._segment_bytes = segment_bytes
        self._segment = memoryview(b"")
        self._used = 0

    def put(self, blob: bytes | memoryview) -> memoryview:
        """Copies a blob and returns a view of the copy; the view keeps the memory alive."""
        start, stop = self._used, self._used + len(blob)
        if stop > len(self._segment):
            self._segment = memoryview(mmap.mmap(-1, max(self._segment_bytes, len(blob))))
            start, stop = 0, len(blob)
        self._segment[start:stop] = blob
        self._used = stop
        return self._segment[start:stop]
