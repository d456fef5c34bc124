"""Communication between actors and learner: protocol, codec, client."""
