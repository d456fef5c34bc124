"""An actor that holds the policy, as IMPALA's (Espeholt et al., 2018): it sends unrolls, and gets weights."""
