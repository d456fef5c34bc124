"""Jobs' files: what is refused, the estimate, and the scenarios of configs/gcp."""

import pytest

from gcp import estimate, jobs
from gcp.config import read_config
from seed_rl.flags.configs import configs_directory
from seed_rl.flags.errors import UsageError
from tests.odd_yaml import ODD

SCENARIOS = sorted((configs_directory() / "gcp").glob("*.yaml"))
ACTORS = {"machine": "n1-standard-4", "replicas": 2, "processes": 2, "environments": 4}
CATCH = {"environment": "catch", "agent": "vtrace"}
SEVERAL = {**CATCH, "insecure_reductions": True}
ONE, TWO, THREE = ({"machine": "n1-standard-8", "replicas": count} for count in (1, 2, 3))


def make(path, **overrides):
    config = read_config(path, overrides)
    return config, jobs.make_jobs(config)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"project": None}, "there is no project; add a line project: … or give --project"),
        ({"actors": None}, "there is no actors"),
        ({"regoin": "us-central1"}, "the key 'regoin' is unknown; did you mean region?"),
        ({"actors": {**ACTORS, "replica": 3}}, "actors: the key 'replica' is unknown; did you mean replicas"),
        ({"actors": {**ACTORS, "replicas": "two"}}, "actors: replicas must be a whole number, not 'two'"),
        ({"actors": 3}, "actors must be a mapping"),
        ({"spot": "yes"}, "spot must be true or false"),
        ({"labels": {"Suite": "x"}}, "labels: Suite: x must be lower-case"),
        ({"region": "Iowa"}, "region must be a region, such as us-central1, not 'Iowa'"),
        ({"bucket": "my-bucket"}, "bucket must be gs://BUCKET"),
        ({"learner": {"machine": "big"}}, "learner: machine must be a machine type"),
        ({"learner": {**ONE, "image": "learner"}}, "learner: image must be an image"),
        ({"restart": "sometimes"}, "restart must be one of replica, job, never"),
        ({"flags": {**CATCH, "logdir": "x"}}, "take logdir out of flags: bucket and display_name determine"),
        ({"each": {"game": []}}, "each: game must be a list in brackets"),
        ({"each": {"agent": ["vtrace", "r2d2"]}}, "agent is in flags and in each"),
        ({"each": {"seed": [1, 1]}}, "two jobs have the same name"),
        ({"timeout_hours": float("inf")}, "timeout_hours must be above 0 and below"),
        ({"flags": {**CATCH, "learning_rates": 1}}, "Unknown flag --learning_rates"),
        ({"flags": {**CATCH, "learning_rate": "fast"}}, "--learning_rate=fast is not valid"),
        ({"flagfile": "none.flags"}, "none.flags cannot be read"),
        ({"flags": {**CATCH, "num_envs": 15}}, "are 16, too many for --num_envs=15"),
        ({"learner": {**ONE, "accelerator": "NVIDIA_TESLA_A10"}}, "choose one of: NVIDIA_TESLA_A100"),
        ({"learner": {**ONE, "accelerator": "NVIDIA_TESLA_P100"}}, "has not offered NVIDIA_TESLA_P100 since"),
        ({"learner": THREE, "flags": SEVERAL}, "4 actors cannot be split evenly over 3 learners"),
        ({"learner": TWO, "flags": {**SEVERAL, "batch_size": 5}}, "--batch_size=5 cannot be split evenly"),
        ({"flags": {**CATCH, "learner_replicas": 2}}, "take learner_replicas out of flags: learner: repl"),
        ({"sweep": {"space": "none.yaml", "trials": 2}}, "none.yaml cannot be read"),
        ({"sweep": {"space": "s.yaml", "trials": 0}}, "sweep: trials must be above 0"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_key(job_file, changes, sentence):
    with pytest.raises(ValueError) as caught:
        make(job_file(**changes))
    text = str(caught.value)
    assert sentence in text and "\n" not in text and text.endswith((".", "?"))


@pytest.mark.parametrize(
    ("space", "flags", "sentence"),
    [
        ("learning_rate: {uniform: [-1, 1]}", None, "--learning_rate=-1"),
        ("learning_rates: {uniform: [0.1, 1]}", None, "Unknown flag --learning_rates"),
        ("learning_rate: {choice: [0.1]}", {"learning_rate": 1}, "learning_rate is drawn from"),
        ("learning_rate: {choice: [0.1]}", {"environment": "recall"}, "take them out of flags"),
    ],
)
def test_a_space_that_does_not_fit_is_one_sentence(job_file, tmp_path, space, flags, sentence):
    (tmp_path / "space.yaml").write_text(f"environment: catch\nagent: vtrace\nspace:\n  {space}\n")
    with pytest.raises(ValueError, match=sentence):
        make(job_file(sweep={"space": "space.yaml", "trials": 2}, flags=flags))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read (No such file"),
        (b"a: [", "is not valid YAML (line 1"),
        (b"\xff\xfe\xfa", "is not valid YAML (it is not a text file)"),
        (b"- a", "is not a YAML mapping"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ValueError) as caught:
        read_config(path, {})
    assert sentence in str(caught.value)


@pytest.mark.parametrize("odd", ODD)
def test_odd_files_are_refused(tmp_path, odd):
    path = tmp_path / "job.yaml"
    path.write_text(ODD[odd])
    with pytest.raises(ValueError, match=r"job\.yaml") as caught:
        read_config(path, {})
    assert len(str(caught.value)) < 500


def test_the_estimate_multiplies_machines_hours_jobs_and_trials(job_file):
    learner = {"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "accelerators": 2}
    prices = {"n1-standard-8": 1.0, "n1-standard-4": 0.25, "NVIDIA_TESLA_T4": 2.0}
    config = read_config(job_file(learner=learner, prices=prices, timeout_hours=10), {})
    text = estimate.describe(config, 3)
    assert "1 x n1-standard-8 with 2 NVIDIA_TESLA_T4: the learner, $5.00 an hour" in text
    assert "2 x n1-standard-4: 4 actors, 16 environments, $0.50 an hour" in text
    assert "3 jobs: $16.50 an hour in all, at most $165 if each takes all of its 10 h" in text
    sweep = {"space": "s.yaml", "trials": 8, "parallel": 2}
    config = read_config(job_file(learner=learner, prices=prices, timeout_hours=10, sweep=sweep), {})
    assert "1 job of 8 trials: $11.00 an hour in all, at most $440" in estimate.describe(config, 1)


FIGURES = {"actor_cpu_secs_per_1000": 0.5, "learner_cpu_secs_per_1000": 0.25}


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        # Two machines of 4 cores for actors, at 2,000 frames a second and core; $0.50 an hour.
        (
            {"machine": "n1-standard-8"},
            "at most 16,000 frames/s, limited by the actors; 10^9 frames cost $26.04",
        ),
        (
            {"machine": "n1-standard-2"},
            "at most 8,000 frames/s, limited by the learner; 10^9 frames cost $52.08",
        ),
        (
            {"machine": "n1-standard-2", "accelerator": "NVIDIA_TESLA_T4", "accelerators": 2},
            "limited by the actors, if the accelerators keep up; 10^9 frames cost $95.49",
        ),
    ],
)
def test_a_job_is_as_fast_as_its_cores_were_measured_to_be(job_file, learner, words):
    prices = {"n1-standard-8": 1.0, "n1-standard-2": 1.0, "n1-standard-4": 0.25, "NVIDIA_TESLA_T4": 2.0}
    config = read_config(job_file(learner=learner, prices=prices), {})
    text = estimate.describe_measured(config, FIGURES, "impala.json")
    assert words in text and "Balanced: 2.0 actor cores" in text


def test_a_machine_of_unknown_size_has_no_measured_speed(job_file):
    config = read_config(job_file(learner={"machine": "a2-highgpu-1g"}), {})
    with pytest.raises(UsageError, match="the number of cores of a2-highgpu-1g"):
        estimate.describe_measured(config, FIGURES, "impala.json")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_makes_its_jobs(path):
    config, made = make(path, project="my-project")
    assert config.display_name == path.stem
    assert "unknown" not in estimate.describe(config, len(made))
