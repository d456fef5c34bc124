"""The commands of `seed_rl`: one module each, whose `main` takes the arguments and returns the exit code."""
