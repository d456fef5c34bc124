"""One file per suite of environments, and helpers that only suites use."""
