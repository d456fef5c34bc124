"""What a learner says of its run: figures, the files and services they go to, and the live progress."""
