"""`python -m tests.simulation --seeds=A-B`: prints the seeds that fail, each with its last events."""

import argparse
import time
import traceback

from tests.simulation.world import run


def main() -> int:
    """Simulates the worlds of all seeds; 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", required=True, help="The first and the last seed: A-B.")
    parser.add_argument("--fault_secs", type=float, default=20.0, help="Virtual seconds with faults.")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    start, failed, secs, events = time.monotonic(), list[int](), 0.0, 0
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        try:
            schedule = run(seed, fault_secs=arguments.fault_secs).schedule
        except Exception:
            failed.append(seed)
            print(f"Seed {seed}:\n{traceback.format_exc()}", flush=True)
        else:
            secs, events = secs + schedule.now - schedule.start, events + schedule.events
    print(
        f"{len(seeds)} seeds, {secs / 3600:.1f} virtual hours, {events} events, "
        f"{time.monotonic() - start:.0f} s; failed: {failed or 'none'}."
    )
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
