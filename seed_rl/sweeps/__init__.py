"""Hyperparameter search with Optuna: space, study, journal, runs and table. Imports no TensorFlow."""
