"""Plots and tables of runs: learning curves, aggregates over games, final returns, and the paper's tables."""

# The packages that plots need besides the project itself.
PACKAGES = ("matplotlib", "scipy")
