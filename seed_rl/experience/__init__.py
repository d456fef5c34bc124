"""Between inference and training: unrolls, the queue, prefetch."""
