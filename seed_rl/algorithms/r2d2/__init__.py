"""R2D2: recurrent Q-learning from prioritized replay (Kapturowski et al., 2019)."""
