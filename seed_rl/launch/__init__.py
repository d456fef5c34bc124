"""One command for one machine: a learner and its actors as supervised children. Imports no TensorFlow."""
