"""Benchmarks, run as `python -m benchmarks.NAME` from the project's root.

NAME is one of:

* `serving`: actors and inference with a null model, compared with a bare gRPC echo of the same bytes;
* `scale`: a thousand streams at once, and what larger machines will serve;
* `end_to_end`: a training run, compared with the ceiling set by its parts, each measured alone;
* `sampling`: acting without training, against processes and environments (Stooke & Abbeel's Table 1);
* `cores`: the parts of an update on 1, 2, 4, ... devices, and one device compared with another checkout;
* `batch_size`: how far a larger batch still pays, for each rule for the learning rate;
* `overhead`: what logging, checkpoints and evaluation environments cost a training run;
* `learning`: what shipped presets learn, over several seeds;
* `scores`: docs/scores.md and its plots, from the records of such runs;
* `rivals`: Pong beside CleanRL and Sample Factory, in speed and in what is learned in the same time;
* `recall`: what a memory is worth on Recall, for both algorithms;
* `replay`: memory and speed of replay at the paper's size;
* `store`: the store that copies unrolls into batches, compared with an obvious one;
* `transitions`: replay of transitions: agent steps stored and batches drawn;
* `atari_engines`: other engines for Atari: whether they equal ours, and their speed;
* `memory`: resident memory of a long run;
* `bandwidth`: bytes per agent step on the wire;
* `garbage`: a learner under garbage from the network, and new actors meanwhile.

Each prints tables and, as its last line, one JSON object. They need a clone with the `learner` and `atari`
extras. The speed of a shared machine drifts, so everything that is compared is measured in turn, round by
round: a ratio is the median over rounds of the ratio of two adjacent measurements.
"""
