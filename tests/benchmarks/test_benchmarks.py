"""Benchmarks run and print the figures that their docstrings name; their speeds are not tested."""

import json
import sys

import pytest

from benchmarks import (
    atari_engines,
    bandwidth,
    cores,
    end_to_end,
    memory,
    overhead,
    parts,
    recall,
    replay,
    scale,
    serving,
    store,
)
from seed_rl.flags.errors import UsageError
from seed_rl.launch.plan import resolve_run
from tests.benchmarks.running import ROOT, result

pytest.importorskip("tensorflow", reason="no TensorFlow")

TINY_RUN = (
    "--torso=shallow",
    "--num_actors=1",
    "--env_batch_size=2",
    "--num_env_groups=1",
    "--inference_batch_size=2",
    "--batch_size=1",
    "--unroll_length=4",
    "--log_period_secs=0.3",
)


@pytest.mark.slow
def test_vectors_compares_ways_to_step():
    found = result("vectors", "--cases=cartpole", "--rounds=1", "--seconds=0.5")["figures"]
    assert found["cartpole/list"]["ratio"] == 1
    assert found["cartpole/native"]["ratio"] > found["cartpole/sync"]["ratio"] > 0


@pytest.mark.slow
def test_sampling_compares_with_environments_alone():
    (case,) = result("sampling", "--actors=1", "--envs=2", "--seconds=1", "--warm_up_secs=0")["cases"]
    speeds = case["agent_steps_per_second"], case["without_inference"]
    assert (case["processes"], case["environments"]) == (1, 2)
    assert case["ratio"] == pytest.approx(speeds[0] / speeds[1], abs=1e-3) and case["ratio"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("experience", ["fifo", "replay"])
def test_serving_compares_with_an_echo(experience):
    found = result(
        "serving",
        f"--experience={experience}",
        *("--seconds=0.5", "--warm_up_secs=0", "--rounds=1", "--actors=1", "--streams=2"),
        *("--batch_messages=1", "--sizes=vector", "--envs_per_message=2"),
    )
    assert found["ratios"].keys() == {"vector_2"}
    assert found["lowest_ratio"] == found["ratios"]["vector_2"] > 0
    figures = found["figures"]["vector_2"]
    for kind in ("echo", "serving"):
        assert figures[kind]["agent_steps_per_second"] == pytest.approx(
            2 * figures[kind]["messages_per_second"], rel=0.01
        )
        assert 0 < figures[kind]["round_trip_p50_ms"] <= figures[kind]["round_trip_p99_ms"]
        assert figures[kind]["server_cores"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["grpc", "shared_memory"])
def test_serving_measures_a_lonely_actor_without_tensorflow(transport):
    found = result(
        "serving",
        *("--model=none", f"--transport={transport}", "--seconds=0.5", "--warm_up_secs=0", "--rounds=1"),
        *("--actors=1", "--streams=1", "--batch_messages=1", "--sizes=vector", "--envs_per_message=1"),
    )
    assert (found["model"], found["transport"]) == ("none", transport)
    assert (
        found["latencies_p50_ms"]["vector_1"] == found["figures"]["vector_1"]["serving"]["round_trip_p50_ms"]
    )
    assert found["latencies_p50_ms"]["vector_1"] > 0
    is_goal = transport == "shared_memory"
    assert found["latency_goal_ms"] == (0.08 if is_goal else None)
    assert found["goals"] == {"vector_1": None if is_goal else 0.7}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: gateways need shared memory")
def test_scale_measures_every_way_and_computes_what_machines_will_serve():
    found = result(
        "scale",
        *("--seconds=0.3", "--warm_up_secs=0.3", "--clients=2", "--streams=3", "--size=vector"),
        *("--envs_per_message=2", "--cores=4"),
    )
    assert found["streams"] == 6
    for way, by_envs in found["figures"].items():
        figures = by_envs["2"]
        assert figures["messages_per_second"] > 0 < figures["server_us_per_message"]
        assert (figures["gateway_us_per_message"] > 0) == (way == "gateway")
        expected = scale.capacity(4, 2, figures["server_us_per_message"], figures["gateway_us_per_message"])
        capacity = found["capacities"][f"{way}_4_2"]
        assert capacity["observations_per_second"] == pytest.approx(
            expected.observations_per_second, rel=0.01
        )
        assert capacity["bound"] == expected.bound
    descriptors = found["resources"]["shared_memory"]
    assert descriptors["server_descriptors_per_stream"] > 0
    assert descriptors["gateway_descriptors_per_stream"] == 0
    assert found["resources"]["gateway"]["gateway_descriptors_per_stream"] > 0


def test_capacity_is_the_learners_or_that_of_the_gateways():
    assert scale.capacity(8, 8, server_us=50.0, gateway_us=0.0) == (160_000, 0, "learner")
    assert scale.capacity(8, 8, server_us=50.0, gateway_us=100.0) == (160_000, 2, "learner")
    assert scale.capacity(2, 8, server_us=50.0, gateway_us=100.0) == (80_000, 1, "gateways")


@pytest.mark.parametrize("variant", end_to_end.VARIANTS)
def test_the_run_and_its_parts_have_the_same_settings(variant):
    """A regression: the launcher added its preset, with two or four passes, to the run alone."""
    flags = [*end_to_end.RUN_FLAGS, *end_to_end.VARIANTS[variant]]
    settings = resolve_run(["train", *flags])
    assert settings.preset is None and {"flag", "default"} < set(settings.origins.values())


@pytest.mark.parametrize(
    ("flags", "agent_steps"),
    [
        (["--agent=vtrace", "--unroll_length=5", "--batch_size=2", "--passes=2"], 2 * 5 / 2),
        (["--agent=ppo", "--unroll_length=5", "--batch_size=2", "--epochs=3"], 8 * 5),
        (["--agent=dqn", "--n_steps=3", "--batch_size=32", "--replay_ratio=8"], 32 / 8),
    ],
)
def test_the_new_agent_steps_that_an_update_stands_for(flags, agent_steps):
    """Of a whole rollout, if there are epochs; a transition stands for the step that it starts with."""
    line = ["train", "--environment=catch", "--num_actors=2", "--env_batch_size=4", *flags]
    found = parts.LearnerParts(resolve_run(line))
    assert found.new_agent_steps == agent_steps
    assert found.training().agent_steps == agent_steps
    assert len(found.sample().weight) == (8 if "--agent=ppo" in flags else found.config.batch_size)


def test_operations_are_those_of_products_and_convolutions():
    tf = pytest.importorskip("tensorflow", reason="no TensorFlow")
    from benchmarks import flops

    images, kernel = tf.ones([2, 8, 8, 3]), tf.ones([3, 3, 3, 5])
    assert flops.operations(tf.matmul, tf.ones([3, 4]), tf.ones([4, 5])) == 2 * 3 * 4 * 5
    convolution = lambda x: tf.nn.conv2d(x, kernel, 1, "VALID")  # noqa: E731
    assert flops.operations(convolution, images) == 2 * (2 * 6 * 6 * 5) * (3 * 3 * 3)


@pytest.mark.parametrize("agent", ["vtrace", "ppo", "dqn"])
def test_an_update_needs_more_operations_than_acting(agent):
    epochs = ["--epochs=3"] if agent == "ppo" else []
    line = ["train", "--environment=catch", f"--agent={agent}", "--batch_size=4", *epochs]
    found = parts.LearnerParts(resolve_run(line)).operations()
    assert found["training"] > 2 * (3 if epochs else 1) * found["inference"] > 0


@pytest.mark.slow
def test_end_to_end_compares_with_its_parts():
    """Of R2D2, whose flags are the most; V-trace's differ from it in values only."""
    pytest.importorskip("ale_py", reason="no Atari")
    short = ("--seconds=1", "--warm_up_secs=0", "--part_secs=0.2", "--rounds=1", "--variants=r2d2")
    replay = ("--burn_in=2", "--lstm_size=8", "--head_size=8", "--n_steps=2", "--replay_buffer_min_size=5")
    found = result("end_to_end", *short, *TINY_RUN, *replay)
    figures = found["figures"]["r2d2"]
    rates = [figures[f"{part}_agent_steps_per_second"] for part in ("environment", "inference", "training")]
    ceiling = 4 / sum(1 / rate for rate in rates)
    assert figures["ceiling_frames_per_second"] == pytest.approx(ceiling, rel=0.01)
    ratio = figures["frames_per_second"] / ceiling
    assert found["ratios"]["r2d2"] == pytest.approx(ratio, rel=0.01, abs=0.001)
    (before, after), *_ = figures["memory_mib"]
    assert before.keys() == after.keys() == {"learner", "actor 0"}
    assert min(before.values()) > 10


@pytest.mark.slow
def test_replay_measures_memory_and_speed():
    pytest.importorskip("ale_py", reason="no Atari")
    found = result(
        "replay",
        *("--games=Pong", "--fill_game=Pong", "--speed_games=Pong", "--steps=1000"),
        *("--fill_sequences=900", "--seconds=0.5", "--rounds=1"),  # A tenth over takes in a batch.
    )
    # 10^5 sequences: 85 GB of frames as they are, a hundredth of that for this game, and never nothing.
    assert 0.1 < found["gib"]["Pong"] == found["median_gib"] == found["hardest_gib"] < 4
    assert found["filled"]["sequences"] == 900
    assert 0 < found["filled"]["counted_gib"] < found["filled"]["uncompressed_gib"]
    assert found["sequences_per_second"]["Pong"] > 0
    assert found["speed"]["Pong"]["ring"] > 0


@pytest.mark.slow
def test_cores_compares_numbers_of_devices_and_another_checkout():
    """The other checkout is this one, so that their packages must be told apart by their place."""
    pytest.importorskip("ale_py", reason="no Atari")
    found = result(
        "cores",
        *("--devices=2,1", "--batch_size=2", "--seconds=0.2", "--rounds=1"),
        *(f"--baseline={ROOT}", "--baseline_pairs=1"),
        *(flag for flag in TINY_RUN if not flag.startswith("--batch_size")),
    )
    one, two = (found["figures"][count] for count in "12")
    assert one["reduced_bytes"] == 0
    # By the trainer, which clips them, and by Keras, which applies them.
    assert two["reduced_bytes"] == pytest.approx(two["published_bytes"], rel=0.2)
    for figures in (one, two):
        assert min(figures[f"{part}_ms"] for part in ("distribute", "gradients", "update", "publish")) > 0
        unrolls = 2 / figures["update_ms"] * 1e3
        assert figures["unrolls_per_second"] == pytest.approx(unrolls, rel=0.01)
        assert figures["frames_per_second"] == pytest.approx(unrolls * 4 * 4, rel=0.01)  # T, repeats
    speedup = two["unrolls_per_second"] / one["unrolls_per_second"]
    assert found["efficiency"]["1"] == 1
    assert found["efficiency"]["2"] == pytest.approx(speedup / 2, rel=0.01)
    assert found["baseline"]["ratio"] > 0
    assert min(found["baseline"]["ratios"].values()) > 0


@pytest.mark.slow
def test_recall_runs_an_agent_with_and_without_memory():
    variants = ("r2d2_lstm", "r2d2_feed_forward")
    found = result(
        "recall",
        *("--delay=2", "--frames=3000", f"--variants={','.join(variants)}"),
        *("--burn_in=1", "--unroll_length=4", "--n_steps=2", "--replay_buffer_min_size=20"),
        *("--num_actors=1", "--env_batch_size=4", "--num_eval_envs=1", "--log_period_secs=0.3"),
    )
    for variant in variants:
        figures = found["figures"][variant]
        assert 0 <= figures["mean_return"] <= 1
        assert figures["frames"] >= 3000 or figures["mean_return"] >= found["goal"]


def test_memory_tells_growth_from_the_warm_up(tmp_path, capsys):
    def read(name, slope):
        (tmp_path / name).mkdir()
        lines = [
            {"env_frames": i, "seconds": 10 * i, "learner_memory_mib": 100 + max(0, 20 - i) + slope * i}
            for i in range(101)
        ]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert memory.main(["memory", f"--run={tmp_path / name}"]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    assert read("flat", slope=0)["largest_growth_percent"] == 0
    growing = read("growing", slope=1)
    assert growing["figures"]["learner"]["growth_mib"] == pytest.approx(50.5)
    assert growing["minutes"] == pytest.approx(1000 / 60, abs=0.01)


@pytest.mark.slow
def test_garbage_counts_what_a_learner_keeps_and_logs():
    found = result("garbage", "--inputs=40", "--actors=2")["figures"]
    assert (found["accepted_inputs"], found["new_actors"], found["locked_out"]) == (40, 2, 0)
    assert 0.0 < found["first_answer_longest_secs"] < 10.0
    assert found["memory_mib_after"] > 100.0 and found["lines_of_log"] > 0


def test_bandwidth_counts_packing_and_stacking(capsys):
    pytest.importorskip("ale_py")
    pytest.importorskip("minatar")
    assert bandwidth.main(["bandwidth"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    header = 6
    for name, packed, plain, frames in [
        ("atari Pong", 84 * 84, 84 * 84, 4),
        ("minatar breakout", 50, 400, 1),
        ("dmlab rooms_watermaze", 72 * 96 * 3, 72 * 96 * 3, 1),
    ]:
        sizes = figures[name]
        assert 0 <= sizes["up"] - packed - header < 3  # and the message around 8 records
        assert 0 <= sizes["up_not_packed_stacked"] - plain * frames - header < 3
        assert 4 <= sizes["down"] < 6


@pytest.mark.slow
def test_atari_engines_compares_an_engine_with_ours(capsys):
    pytest.importorskip("ale_py")
    flags = (
        "--engines=vector",
        "--games=Breakout",
        "--agent_steps=200",
        "--speed_games=Pong",
        "--num_envs=2",
    )
    assert atari_engines.main(["atari_engines", *flags, "--seconds=0.02", "--rounds=1"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    breakout = found["equality"]["vector"]["Breakout"]
    assert breakout.pop("ends") > 0
    assert breakout == {"frame": None, "reward": None, "end": None, "frames": 0, "largest": 0}
    assert found["speed"]["Pong 2"]["ratios"]["vector"] > 0
    microseconds = found["microseconds"]["Pong"]
    assert microseconds.keys() == {"agent_step", "emulator", "grayscale", "maximum", "resize"}
    assert microseconds["agent_step"] > microseconds["maximum"] > 0


@pytest.mark.parametrize(
    ("module", "flag", "sentence"),
    [
        (atari_engines, "--engines=xitari", "choose from: envpool, vector"),
        (atari_engines, "--num_envs=1,many", "write numbers from 1 on, separated by commas"),
        (memory, "--run=nowhere", "name a run directory"),
        (serving, "--sizes=huge", "choose from: atari, vector"),
        (scale, "--cores=8,many", "write it like 1,8,32"),
        (replay, "--games=Pong,Chess", "Chess is not in Atari-57"),
        (recall, "--variants=dqn", "choose from: vtrace_lstm, vtrace_feed_forward"),
        (end_to_end, "--learning_rat=1", "did you mean --learning_rate"),
        (overhead, "--variants=all", "choose from: logging, evaluation"),
        (cores, "--devices=1,two", "write numbers from 1 on, separated by commas"),
        (
            cores,
            "--devices=3",
            "--batch_size=32 cannot be split evenly over 3 devices; change it, --devices or",
        ),
        (cores, "--baseline=/", "--baseline=/ is no checkout; name a directory that has seed_rl"),
    ],
)
def test_bad_input_is_one_sentence(module, flag, sentence):
    with pytest.raises(UsageError, match=sentence):
        module.main(["benchmark", flag])


def test_both_ways_into_batches_are_measured(capsys):
    args = ("--seconds=0.02", "--rounds=1", "--cases=vector")
    assert store.main(["store", *args]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["microseconds_per_agent_step"]["vector"]
    assert found["ratio"] == pytest.approx(found["batches"] / found["unrolls"], rel=0.01)
    assert min(found.values()) > 0
