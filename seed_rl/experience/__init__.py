"""Everything between inference and training: unrolls, the queue, replay, prefetch."""
