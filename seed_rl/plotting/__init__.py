"""Pictures of runs: learning curves, one panel a game, human-normalised medians, sorted final returns."""
