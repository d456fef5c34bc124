"""Policies and parts of losses that actor-critic algorithms share."""
