r"""The learner process: hosts inference, trains, and keeps the run directory.

Examples:
  seed_rl learner --environment=catch --agent=vtrace --server_address=unix:/tmp/seed_rl.sock \
    --num_envs=16 --logdir=runs/catch
  seed_rl learner --flagfile=configs/paper/seed/atari_vtrace.flags --server_address=0.0.0.0:8686 \
    --tls_certificate=learner.pem --tls_key=learner.key --token_file=token --num_envs=256 --logdir=runs/pong

Actors are started with `seed_rl actor`; `seed_rl train` starts both on one machine.

Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 stop it with a checkpoint; the same command resumes the run.

Exit codes: 0 when training is complete, 130 after Ctrl-C, 143 after SIGTERM (128 + N after signal N), 2 if
a flag is wrong, 1 otherwise.
"""

from seed_rl.launch.learner_process import run_learner


def main(argv: list[str]) -> int:
    """Runs a learner; returns the exit code, which is 0 only when training is complete."""
    return run_learner(argv, __doc__)
