"""Flags at the edge: Options dataclasses become absl flags, and flags become validated Options again.

Only the mains use this package; no module below them reads a flag. It imports no TensorFlow.
"""
