"""Inference: the table of environments next to the device, and the core that acts and stores the steps."""
