"""Settings of the learner process. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import option, part
from seed_rl.seeds import LARGEST_SEED
from seed_rl.training.training_config import TrainerConfig
from seed_rl.wire.security import WebConfig

# Values of --opponents that name no run.
SELF, PAST = "self", "past"


@dataclasses.dataclass(frozen=True)
class LearnerConfig(TrainerConfig):
    """All settings of a learner that belong neither to the agent nor to the environment."""

    server_address: str = option(
        "unix:/tmp/seed_rl.sock",
        "Where actors connect: unix:PATH on one machine, HOST:PORT for TCP.",
        is_plumbing=True,
    )
    web: WebConfig = part(WebConfig)
    num_envs: int = option(
        4, "Environments across all actors (actors x --env_batch_size).", at_least=1, is_plumbing=True
    )
    logdir: str = option(
        "runs/seed_rl",
        "Run directory: checkpoints, metrics, TensorBoard events.",
        is_plumbing=True,
        is_path=True,
    )
    total_environment_frames: int = option(
        1_000_000_000, "Training ends after this many environment frames (agent steps x repeats).", at_least=1
    )
    stop_at_return: float | None = option(
        None,
        "Training also ends, as complete, when the mean return reaches this: of the latest 100 episodes, "
        "or those in the mean evaluation return where environments evaluate.",
    )
    inference: str = option(
        "learner",
        "Who chooses the actions. learner: central inference, with thin actors. actor: actors that hold the "
        "policy and get newer weights with each unroll, as in IMPALA; for agents that learn from a queue.",
        choices=("learner", "actor"),
    )
    inference_batch_size: int = option(
        64, "Maximum number of environments in one inference call.", at_least=1, is_plumbing=True
    )
    inference_timeout_ms: float = option(
        20.0,
        "Milliseconds after which an inference batch runs although it is neither full nor complete: the most "
        "that a stalled actor can cost the others.",
        above=0,
        is_plumbing=True,
    )
    num_gateways: int = option(
        0,
        "Processes that serve actors on other machines in place of the learner, and pass on their steps "
        "through shared memory. They listen on the ports that follow that of --server_address; actors with "
        "this learner are sent there. 0: the learner serves all actors itself. Needs Linux.",
        at_least=0,
        is_plumbing=True,
    )
    num_inference_threads: int = option(
        1, "Threads that run inference; 2 hide latency on an accelerator.", at_least=1, is_plumbing=True
    )
    opponents: str = option(
        SELF,
        "Who plays the other players of a game. self: the newest policy, which learns from all of them. "
        "past: in half of the episodes, a policy from a pool of earlier ones, which is drawn by how often it "
        "still wins. Or the directory or a checkpoint of a run.",
        is_path=True,
    )
    league_every: int = option(
        200, "Updates after which a copy of the policy joins the pool of --opponents=past.", at_least=1
    )
    league_size: int = option(
        8, "Policies in the pool of --opponents=past; the oldest one is replaced.", at_least=1
    )
    init_checkpoint: str | None = option(
        None, "Checkpoint (path prefix or run directory) whose network a new run starts from.", is_path=True
    )
    save_checkpoint_secs: float = option(600.0, "Seconds between checkpoints.", above=0, is_plumbing=True)
    keep_checkpoints: int = option(
        3, "How many of the latest checkpoints are kept.", at_least=1, is_plumbing=True
    )
    keep_checkpoint_every_hours: float = option(
        1.0,
        "In addition to the latest ones, one checkpoint per this many hours is kept for good.",
        above=0,
        is_plumbing=True,
    )
    keep_checkpoint_every_agent_steps: int | None = option(
        None,
        "In addition, a checkpoint is written every so many agent steps and kept for good, for "
        "seed_rl evaluate --checkpoint=kept.",
        at_least=1,
        is_plumbing=True,
    )
    evaluation_window: int = option(
        20,
        "Number of latest evaluation episodes in the mean evaluation return, which is reported in every "
        "period; fewer episodes are more recent.",
        at_least=1,
    )
    evaluation_episodes_per_point: int | None = option(
        None,
        "Every mean evaluation return is of this many episodes that no other one is of, as in the paper's "
        "Figure 7 (200), and is reported when the last of them has ended. By default it is that of the "
        "latest --evaluation_window episodes, in every period.",
        at_least=1,
    )
    log_period_secs: float = option(
        10.0,
        "Seconds between lines of metrics and progress; fewer in the first seconds of training.",
        above=0,
        is_plumbing=True,
    )
    seed: int = option(
        1,
        "Seed for the network's initialization and for sampling.",
        at_least=0,
        at_most=LARGEST_SEED,
        is_plumbing=True,
    )
    synchronous: bool = option(
        False,
        "Repeatable bit for bit, but slower: all environments act in one batch, and training and acting take "
        "turns. Runs with the same --seed, on the same machine and versions, learn exactly the same.",
    )
    wandb_project: str | None = option(
        None, "Weights & Biases project to log the figures to as well. Needs [wandb].", is_plumbing=True
    )
    training_devices: str = option(
        "",
        "Devices that train, each on a part of the batch: numbers or TensorFlow's names, separated by "
        "commas. By default, a single device trains and infers; of several, the largest number that divides "
        "the batch and leaves one to infer.",
        is_plumbing=True,
    )
    inference_devices: str = option(
        "",
        "Devices that infer, each for a part of the environments; as --training_devices.",
        is_plumbing=True,
    )
    publish_every: int = option(
        1,
        "Updates after which inference on a device of its own gets new weights.",
        at_least=1,
        is_plumbing=True,
    )
    learner_hosts: str = option(
        "",
        "Addresses of all learner hosts, separated by commas, each HOST:PORT or unix:PATH; actors and the "
        "other hosts connect there. By default those of TF_CONFIG, if it is set; else there is one host. "
        "--num_envs and --batch_size are split over the hosts.",
        is_plumbing=True,
    )
    learner_index: int = option(
        0,
        "Which of --learner_hosts this process is; 0 keeps the run directory.",
        at_least=0,
        is_plumbing=True,
    )
    host_timeout_secs: float = option(
        120.0,
        "Seconds for which a learner host waits for the others, at the start and at every update, before all "
        "of them end; longer than a checkpoint takes.",
        above=0,
        is_plumbing=True,
    )
    insecure_reductions: bool = option(
        False,
        "Let TensorFlow add up gradients between learner hosts on several machines, without encryption or "
        "credentials, on a network that you trust.",
        is_plumbing=True,
    )
    num_logical_devices: int = option(
        1,
        "Devices that the CPU is split into, for tests and demonstrations of several devices.",
        at_least=1,
        is_plumbing=True,
    )
    accelerator: str = option(
        "auto",
        "auto: GPUs, or the CPU if there are none. tpu: this machine's TPUs, with the extra [tpu]; implies "
        "--jit.",
        choices=("auto", "tpu"),
        is_plumbing=True,
    )
    jit: bool = option(
        False,
        "Whether XLA compiles inference and the update. Inference batches are then filled up to a power of "
        "two or to --inference_batch_size, since each size is compiled by itself.",
        is_plumbing=True,
    )
    precision: str = option(
        "float32",
        "What the network computes in. With bfloat16, variables, outputs and losses are still float32. auto: "
        "bfloat16 on a machine without accelerators whose processor has instructions for it (AMX or "
        "AVX512-BF16), else float32.",
        choices=("float32", "bfloat16", "auto"),
    )
    require_accelerator: bool = option(
        False, "Refuse to train on a CPU: exit with TensorFlow's reason if it sees no GPU.", is_plumbing=True
    )
    intra_op_threads: int = option(
        0, "TensorFlow's threads within an operation; 0 lets TensorFlow choose.", at_least=0, is_plumbing=True
    )
    inter_op_threads: int = option(
        0, "TensorFlow's threads between operations; 0 lets TensorFlow choose.", at_least=0, is_plumbing=True
    )

    def validate(self) -> None:
        """Checks constraints between fields."""
        super().validate()
        if self.accelerator == "tpu" and self.learner_hosts:
            raise ValueError(
                "--accelerator=tpu trains on one host; leave out --learner_hosts, or --accelerator=tpu."
            )
        if self.inference == "learner":
            return
        for name in ("synchronous", "num_gateways", "inference_devices", "learner_hosts"):
            if getattr(self, name):
                raise ValueError(
                    f"--{name} is for a learner that chooses the actions; leave it out, or choose "
                    "--inference=learner."
                )

    @property
    def compiled_batch_size(self) -> int | None:
        """Environments in the largest inference batch if XLA compiles inference; None if it does not."""
        if not (self.jit or self.accelerator == "tpu"):
            return None
        return self.num_envs if self.synchronous else min(self.num_envs, self.inference_batch_size)
