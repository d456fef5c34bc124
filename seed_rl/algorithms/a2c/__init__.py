"""A2C: the synchronous advantage actor-critic (Mnih et al., 2016; Stooke & Abbeel, 2018, section 3.1)."""
