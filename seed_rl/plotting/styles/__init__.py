"""One file per style: each draws groups of runs into a figure."""
