"""Hyperparameter search with Optuna: space, trials, study and runner. Imports no TensorFlow."""
