"""Lists the commands: `python -m seed_rl`."""

COMMANDS = {
    "local_main": "train on this machine: a learner and its actors with one command",
    "cluster_main": "train on a Ray cluster: the same, spread over its nodes",
    "evaluate": "evaluate a trained agent: scores, JSON, a video",
    "plot": "plot runs: curves with bands over seeds, sorted sweeps, many games",
    "doctor": "say what bounds the speed of a run, and which flag to change",
    "sweep": "search over hyperparameters, by random trials on this machine",
    "learner_main": "the learner alone, for actors on other machines",
    "actor_main": "one actor process, for a learner that runs elsewhere",
    "gateway_main": "serve actors elsewhere for a learner, as its --num_gateways does",
    "vertex_main": "one container of a Vertex AI job, as gcp.submit starts it",
}


def main() -> None:
    """Prints one line per command."""
    print("seed_rl: deep reinforcement learning with central inference. Commands, each with --help:\n")
    for name, text in COMMANDS.items():
        print(f"  python -m seed_rl.{name:<13} {text}")


if __name__ == "__main__":
    main()
