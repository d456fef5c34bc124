"""Benchmarks, run as `python -m benchmarks.NAME` from the project's root.

NAME is one of:

* `serving`: actors and inference with a null model, beside a bare gRPC echo of the same bytes;
* `end_to_end`: a training run, beside the ceiling that its parts, each measured alone, allow;
* `memory`: resident memory of a long run.

Each prints tables and, as its last line, one JSON object. They need a clone with the `learner` and `atari`
extras. Speeds of a shared machine drift, so whatever is compared is measured in turn, round by round: a ratio
is the median over rounds of what two neighbouring measurements give.
"""
