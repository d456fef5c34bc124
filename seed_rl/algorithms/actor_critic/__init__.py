"""What actor-critic algorithms share: how they act, and parts of what they minimize."""
