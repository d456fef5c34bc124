"""Pure functions, one idea per file."""
