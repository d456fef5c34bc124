"""A run on a Ray cluster: the processes of a local run, on nodes of Ray's choice. Imports no TensorFlow."""
