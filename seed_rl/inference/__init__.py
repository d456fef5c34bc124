"""The inference server, its batcher, and the core that acts."""
