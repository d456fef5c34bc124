"""The wire between actors and learner: protocol, codec, client."""
