"""The actor: a loop over environments, without a network or TensorFlow."""
