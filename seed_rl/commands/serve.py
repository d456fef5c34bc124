r"""Serves trained policies by the learner's protocol, over gRPC, shared memory and WebSockets.

Examples:
  seed_rl serve runs/atari_vtrace_Pong --server_address=unix:/tmp/pong.sock
  seed_rl serve runs/mine --web_address=localhost:8080 --greedy --follow
  seed_rl serve runs/old runs/new --shares=0.9,0.1 --server_address=127.0.0.1:8686

Actors, and programs that attach (seed_rl.connect), get actions as from a learner: each environment is a
session with its own recurrent state, and sessions act in batches. With several runs of the same environment,
each client belongs to one, drawn by --shares. Mean returns are printed by run and version (its updates).

Exit codes: 2 when a flag is wrong, 130 after Ctrl-C, 143 after SIGTERM, 1 otherwise.
"""

import os
import time
from typing import TYPE_CHECKING

from seed_rl.evaluation.load import PlayConfig, load_subjects
from seed_rl.evaluation.serve_config import ServeConfig
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.launch.child import raise_descriptor_limit
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, say
from seed_rl.serving.listener import NotServingError
from seed_rl.serving.live import Live
from seed_rl.wire.security import check_listening, load_security

if TYPE_CHECKING:
    from seed_rl.evaluation.served import PolicyServer


def main(argv: list[str]) -> int:
    """Serves until a signal comes, or until it cannot; returns the exit code."""
    config, runs = parse_options(argv, __doc__ or "", ServeConfig, positional=None)
    if not runs:
        raise UsageError("No run is given; add its directory: seed_rl serve RUN_DIRECTORY.")
    require_package("tensorflow", "learner")
    with usage_errors():
        shares = config.shares_of(len(runs))
        raise_descriptor_limit()
        security = load_security(config.security, os.environ)
        check_listening(config.server_address, config.security, security, config.web)
    play = PlayConfig(seed=config.seed, trust_code=config.trust_code, failures=config.failures)
    with quiet_start(), usage_errors():
        subjects = load_subjects(play, [os.path.abspath(run) for run in runs], config.checkpoint, 1)
        from seed_rl.evaluation.played import page_of
        from seed_rl.evaluation.served import PolicyServer

        num_envs = config.num_envs * len(runs)
        live = Live(**page_of(subjects[0], num_envs)) if config.web.web_address else None
        server = PolicyServer(subjects, shares, config, security, live)
    names = ", ".join(one.checkpoint for one in subjects)
    say(f"serving {names} at {config.server_address}; Ctrl-C stops it.")
    try:
        _keep(server, config, runs)
    except NotServingError as error:
        complain(str(error))
        return 1
    finally:
        server.stop()
    return 0


def _keep(server: "PolicyServer", config: ServeConfig, runs: list[str]) -> None:
    """Follows the runs and reports returns, until a signal comes."""
    due = time.monotonic() + config.report_secs
    for _ in server.seconds(runs, config.follow):
        if time.monotonic() > due:
            due += config.report_secs
            for (number, updates), (count, mean) in server.figures().items():
                say(f"{runs[number]} at {updates} updates: mean return {mean:.2f}, {count} episodes.")
