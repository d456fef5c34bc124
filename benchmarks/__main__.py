"""The command `python -m benchmarks NAME [--flags]`: runs a benchmark, or lists them."""

import importlib

from seed_rl.flags.errors import UsageError, run_main

BENCHMARKS = {
    "end_to_end": "a training run, compared with the ceiling set by its parts",
    "parts": "environment, inference and training of a run, each alone",
    "sampling": "acting on Atari without training, as in Table 1 of Stooke & Abbeel",
    "serving": "actors and inference with a null model, compared with a bare gRPC echo or another checkout",
    "policies": "policies that are served: requests per second and latencies, beside an ONNX model",
    "live": "the live page: frames per second with it open and closed; its pictures",
    "replay": "memory and speed of replay at the paper's size",
    "memory": "resident memory of a long run",
    "chaos": "faults in real processes: all that is trained on is checked, and how soon it goes on",
    "rivals": "the speed of training on Pong beside CleanRL and Sample Factory",
    "impala": "SEED against IMPALA: central inference, and actors that hold the policy",
    "cost": "US dollars for 10^9 environment frames, from the figures of impala",
    "players": "games of several players: against scripted players, and self-play with and without a pool",
    "learning": "returns of shipped presets, over several seeds",
    "scores": "docs/scores.md and its plots, from the records of such runs",
}


def run(argv: list[str]) -> int | None:
    """Runs the benchmark that the arguments name; returns its exit code.

    Raises:
      UsageError: there is no such benchmark.
    """
    name, *args = argv[1:] or ["--help"]
    if name in ("help", "--help", "-h"):
        print("python -m benchmarks NAME [--flags], each with --help:\n")
        print("\n".join(f"  {one:<11} {text}" for one, text in BENCHMARKS.items()))
        return 0
    if name not in BENCHMARKS:
        raise UsageError(f"{name!r} is not a benchmark; choose one of {', '.join(BENCHMARKS)}.")
    return importlib.import_module(f"benchmarks.{name}").main([f"benchmarks {name}", *args])


if __name__ == "__main__":
    run_main(run)
