"""Reports of a learner: figures, the files and services that get them, and the live progress."""
