"""Benchmarks run and print the figures that their docstrings name; their speeds are not tested."""

import contextlib
import re

import pytest

from benchmarks import __main__, end_to_end, memory, parts, replay, sampling, serving
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
def test_serving_compares_with_an_echo_and_another_checkout():
    """The other checkout is this one."""
    found = result(
        "serving",
        f"--baseline={ROOT}",
        *("--seconds=0.5", "--warm_up_secs=0", "--rounds=1", "--actors=1", "--streams=2"),
        *("--batch_messages=1", "--sizes=vector", "--envs_per_message=2"),
    )
    assert found["ratios"].keys() == {"vector_2"} and found["ratios"]["vector_2"] > 0
    figures = found["figures"]["vector_2"]
    ratio = figures["serving"]["messages_per_second"] / figures["baseline"]["messages_per_second"]
    assert found["ratios_to_baseline"]["vector_2"] == pytest.approx(ratio, rel=0.01)
    for kind in ("echo", "serving", "baseline"):
        assert figures[kind]["agent_steps_per_second"] == pytest.approx(
            2 * figures[kind]["messages_per_second"], rel=0.01
        )
        assert 0 < figures[kind]["round_trip_p50_ms"] <= figures[kind]["round_trip_p99_ms"]
        assert figures[kind]["server_cores"] > 0 < figures[kind]["client_us_per_message"]


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


@pytest.mark.slow
def test_replay_measures_memory_and_speed():
    pytest.importorskip("ale_py", reason="no Atari")
    found = result(
        "replay",
        *("--games=Pong", "--speed_games=Pong", "--steps=1000", "--seconds=0.5", "--rounds=1"),
    )
    # 10^5 sequences: 85 GB of frames as they are, a hundredth of that for this game, and never nothing.
    assert 0.1 < found["gib"]["Pong"] == found["median_gib"] == found["hardest_gib"] < 4
    assert found["sequences_per_second"]["Pong"] > 0


@pytest.mark.slow
def test_sampling_measures_both_ways_without_training():
    pytest.importorskip("ale_py", reason="no Atari")
    found = result("sampling", "--simulators=4,8", "--seconds=1", "--warm_up_secs=0", "--log_period_secs=0.3")
    figures = found["agent_steps_per_second"]
    assert figures.keys() == {f"{way}_{count}" for way in sampling.WAYS for count in (4, 8)}
    assert all(figure > 0 for figure in figures.values())


def test_memory_tells_growth_from_the_warm_up():
    def growth(slope):
        return memory.growth_of([(10 * i, 100 + max(0, 20 - i) + slope * i) for i in range(101)])

    assert growth(slope=0)["growth_percent"] == 0
    assert growth(slope=1)["growth_mib"] == pytest.approx(50.5)


@pytest.mark.slow
def test_memory_samples_every_process():
    pytest.importorskip("ale_py", reason="no Atari")
    found = result("memory", "--minutes=0.05", "--period_secs=0.2", *TINY_RUN)["figures"]
    assert found.keys() == {"learner", "actor 0"}
    assert min(figures["last_quarter_mib"] for figures in found.values()) > 10


def test_the_command_lists_every_benchmark(capsys):
    assert __main__.run(["benchmarks"]) == 0
    listed = capsys.readouterr().out
    for name in __main__.BENCHMARKS:
        assert f"  {name} " in listed
        with contextlib.suppress(SystemExit):  # With the exit code 0, or it would have printed no help.
            __main__.run(["benchmarks", name, "--help"])
        assert capsys.readouterr().out
    with pytest.raises(UsageError, match="'speed' is not a benchmark; choose one of end_to_end, parts"):
        __main__.run(["benchmarks", "speed"])


def test_the_docs_name_benchmarks_that_there_are():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {name for page in pages for name in re.findall(r"-m benchmarks[ .](\w+)", page.read_text())}
    assert found == __main__.BENCHMARKS.keys()


@pytest.mark.parametrize(
    ("module", "flag", "sentence"),
    [
        (serving, "--sizes=huge", "choose from: atari, vector"),
        (serving, "--envs_per_message=8,many", "write it like 1,8,32"),
        (
            serving,
            "--baseline=/",
            "--baseline=/ is no checkout; name a directory that has benchmarks/serving.py",
        ),
        (memory, "--learning_rat=1", "did you mean --learning_rate"),
        (replay, "--games=Pong,Chess", "Chess is not in Atari-57"),
        (end_to_end, "--learning_rat=1", "did you mean --learning_rate"),
        (sampling, "--simulators=64,66", "give multiples of 4"),
        (end_to_end, "--variants=all", "choose from: feed_forward, lstm"),
    ],
)
def test_bad_input_is_one_sentence(module, flag, sentence):
    with pytest.raises(UsageError, match=sentence):
        module.main(["benchmark", flag])
