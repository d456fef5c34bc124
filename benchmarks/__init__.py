"""Benchmarks, run as `python -m benchmarks NAME` from the project's root; `benchmarks.__main__` lists them.

Each prints tables and, as its last line, one JSON object. They need a clone with the `learner` and `atari`
extras. The speed of a shared machine drifts, so everything that is compared is measured in turn, round by
round: a ratio is the median over rounds of the ratio of two adjacent measurements.
"""
