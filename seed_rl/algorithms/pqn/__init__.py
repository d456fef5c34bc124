"""PQN: parallel Q-learning without replay or a target network (Gallici et al., 2024)."""
