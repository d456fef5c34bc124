"""What the SEED RL paper and Stooke & Abbeel's paper print, as data."""
