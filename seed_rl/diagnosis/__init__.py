"""What bounds a run, told from its figures. No TensorFlow."""
