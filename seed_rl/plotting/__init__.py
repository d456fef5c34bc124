"""Plots of runs: learning curves, one panel per game, human-normalized medians, sorted final returns."""
