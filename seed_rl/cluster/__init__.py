"""A run on a Ray cluster: the processes of a local run, on nodes that Ray chooses. Imports no TensorFlow."""
