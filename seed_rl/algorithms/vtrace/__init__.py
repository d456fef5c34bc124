"""V-trace: an off-policy actor-critic (Espeholt et al., "IMPALA", 2018, section 4)."""
