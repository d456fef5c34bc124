"""The actor: a loop over environments, without network and without TensorFlow."""
