"""DQN and its descendants: Q-learning from replay of transitions (Mnih et al., 2015; Hessel et al., 2018)."""
