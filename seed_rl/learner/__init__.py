"""The learner: wires inference, experience and training together."""
