"""Hyperparameter search with Optuna: spaces, the study and its journal, runs, and the table. Imports no TensorFlow."""
