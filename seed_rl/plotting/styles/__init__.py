"""One file a style: each draws groups of runs into a figure."""
