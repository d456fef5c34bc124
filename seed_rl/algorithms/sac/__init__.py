"""SAC: soft actor-critic with a learned temperature (Haarnoja et al., 2018)."""
