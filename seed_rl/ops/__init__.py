"""Pure functions, one idea a file."""
