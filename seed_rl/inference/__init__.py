"""Inference: the table of environments beside the device, and the core that acts and files the steps."""
