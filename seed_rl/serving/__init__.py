"""Serves actors: who may connect, and the steps and answers of every stream. No TensorFlow."""
