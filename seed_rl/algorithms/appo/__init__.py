"""APPO: PPO's loss on experience from a queue (Stooke & Abbeel, 2018, section 5.3)."""
