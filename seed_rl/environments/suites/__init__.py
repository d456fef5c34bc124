"""One file a suite of environments, and what only suites use."""
