"""Tables and settings of the SEED RL paper and of Stooke & Abbeel's paper, as data."""
