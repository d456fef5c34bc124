"""Random search over hyperparameters: spaces, trials, their runs, and the table. Imports no TensorFlow."""
