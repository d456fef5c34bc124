"""Random search over hyperparameters: a space, its trials, their runs, the table. Imports no TensorFlow."""
