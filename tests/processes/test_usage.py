"""Usage errors end each main with exit code 2 and one sentence that names the valid values."""

import signal

import pytest

from tests.selection import mostly_slow

START = ("learner", "--environment=catch", "--total_environment_frames=1000")
LEARNER = (*START, "--agent=vtrace")
DQN = (*START, "--agent=dqn")
HOSTS = (*LEARNER, "--server_address=unix:s", "--learner_index=0")
R2D2 = (*START, "--agent=r2d2")
ACTOR = ("actor", "--environment=catch")
LOCAL = ("train", "catch", "vtrace")

CASES = [
    (("learner", "--environment=catsh", "--agent=vtrace"), ["--environment=catsh", "atari, catch, "]),
    (("learner", "--environment=catch", "--agent=vtrase"), ["--agent=vtrase", "vtrace"]),
    ((*LEARNER, "--torso=deep"), ["--torso=deep", "auto, mlp, minatar, shallow, nature, resnet"]),
    ((*LEARNER, "--batch_sise=4"), ["--batch_sise", "--batch_size"]),
    ((*ACTOR, "--tusk=4"), ["--tusk", "--task"]),
    ((*LOCAL, "--num_actor=4"), ["--num_actor", "--num_actors"]),
    ((*R2D2, "--replay_buffer_min_size=999999"), ["--replay_buffer_min_size=999999", "--replay_buffer_size"]),
    ((*LEARNER, "--precision=float16"), ["--precision=float16", "float32, bfloat16, auto"]),
    ((*LEARNER, "--server_address=0.0.0.0:1"), ["--insecure on a network you trust"]),
    ((*ACTOR, "--server_address=0.0.0.0:1"), ["--insecure on a network you trust"]),
    (
        (*LEARNER, "--num_gateways=2", "--server_address=localhost:65534"),
        ["--num_gateways=2", "as many ports"],
    ),
    ((*LEARNER, f"--seed={2**63 + 1}"), [f"--seed={2**63 + 1} is too high"]),
    ((*HOSTS, "--learner_hosts=unix:s,192.0.2.77:86"), ["--insecure_reductions", "192.0.2.77:86"]),
    ((*HOSTS, "--learner_hosts=192.0.2.77:86,unix:s"), ["--insecure_reductions", "192.0.2.77:86"]),
    (("sweep", "--trials=0"), ["--trials=0", "at least 1"]),
    # Flags of environments and agents that were not chosen are not defined.
    ((*ACTOR, "--full_action_set"), ["Unknown flag --full_action_set", "environment catch"]),
]
# The learner must import TensorFlow to know.
SLOW_CASES = [
    ((*R2D2, "--num_envs=4", "--num_eval_envs=4"), ["--num_eval_envs=4", "4 environments"]),
    ((*R2D2, "--replay_max_bytes=1e15"), ["--replay_max_bytes=1000000000000000", "this machine's memory"]),
    ((*R2D2, "--environment=gym", "--game=Pendulum-v1"), ["one discrete action", "--agent"]),
    ((*DQN, "--replay_buffer_size=1e13"), [f"--replay_buffer_size={10**13}", "The tables alone"]),
    ((*LEARNER, "--require_accelerator"), ["--require_accelerator: TensorFlow sees no GPU ("]),
    (
        (*LEARNER, "--num_logical_devices=4", "--batch_size=4", "--inference_devices=0"),
        [
            "--batch_size=4 cannot be split evenly over 3 training devices (CPU:1, CPU:2, CPU:3)",
            "make it a multiple of 3, such as 3 or 6",
        ],
    ),
    (
        (*LEARNER, "--num_logical_devices=4", "--inference_devices=0,1", "--synchronous"),
        ["--synchronous acts in one batch", "--inference_devices, not 2."],
    ),
    ((*LEARNER, "--accelerator=tpu"), ["--accelerator=tpu: TensorFlow sees no TPU", "[tpu]"]),
    (
        (*LEARNER, "--accelerator=tpu", "--learner_hosts=127.0.0.1:1,127.0.0.1:2", "--learner_index=0"),
        ["--accelerator=tpu trains on one host; leave out --learner_hosts"],
    ),
]


@pytest.mark.slow
def test_a_learner_without_a_number_of_frames_first_says_how_many_it_trains(house):
    process = house.start("learner", "--environment=catch", "--agent=vtrace", "--server_address=unix:s")
    process.wait_for("Making the network")
    process.signal(signal.SIGTERM)
    process.end()
    first = process.output.splitlines()[0]
    assert first.startswith("1,000,000,000 environment frames") and "--total_environment_frames" in first


@pytest.mark.parametrize(
    ("command", "words"),
    mostly_slow([*CASES, *SLOW_CASES], CASES),
    ids=lambda value: "_".join(value)[:60],
)
def test_bad_use_is_one_sentence_and_exit_code_2(house, monkeypatch, command, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    process = house.start(*command)
    assert process.end() == 2
    (line,) = process.said
    assert line.startswith("seed_rl: error: ")
    for word in words:
        assert word in line
    assert list(house.path.glob("run*")) == []
