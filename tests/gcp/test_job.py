"""Jobs' files: what is refused, the estimate, and the scenarios of configs/gcp."""

from types import SimpleNamespace

import pytest

from gcp.job import make_requests, read_job
from gcp.submit import describe
from seed_rl.flags.flagfile import configs_directory

SCENARIOS = sorted((configs_directory() / "gcp").glob("*.yaml"))
ACTORS = {"machine": "n1-standard-4", "replicas": 2, "processes": 2, "environments": 4}
CATCH = {"environment": "catch", "agent": "vtrace"}
SEVERAL = {**CATCH, "insecure_reductions": True}
TWO, THREE = ({"machine": "n1-standard-8", "replicas": count} for count in (2, 3))


def make(path, **overrides):
    job = read_job(path, overrides)
    return job, make_requests(job)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"project": None}, "there is no project; add a line project: … or give --project"),
        ({"actors": None}, "there is no actors"),
        ({"regoin": "us-central1"}, "the key 'regoin' is unknown; did you mean region?"),
        ({"actors": {**ACTORS, "replica": 3}}, "actors: the key 'replica' is unknown; did you mean replicas"),
        ({"actors": {**ACTORS, "replicas": "two"}}, "actors: replicas must be a whole number above 0, not"),
        ({"actors": 3}, "actors must be a mapping"),
        ({"spot": "yes"}, "spot must be true or false"),
        ({"labels": {"try": 1}}, "labels: try must be text, not 1"),
        ({"prices": {"n1-standard-4": "cheap"}}, "prices: n1-standard-4 must be a number"),
        ({"flags": ["a"]}, "flags must be a mapping"),
        ({"flags": {**CATCH, "seed": [1]}}, "flags: seed must be a number, text, true or false"),
        ({"display_name": "a/b"}, "display_name must have letters"),
        ({"bucket": "my-bucket"}, "bucket must be gs://BUCKET"),
        ({"restart": "sometimes"}, "restart must be one of replica, job, never"),
        ({"flags": {**CATCH, "logdir": "x"}}, "take logdir out of flags and each"),
        ({"each": {"game": []}}, "each: game must be a list in brackets"),
        ({"each": {"seed": [1, 1]}}, "two jobs have the same name"),
        ({"timeout_hours": float("inf")}, "timeout_hours must be a number above 0"),
        ({"flags": {**CATCH, "learning_rates": 1}}, "Unknown flag --learning_rates"),
        ({"flagfile": "none.flags"}, "none.flags cannot be read"),
        ({"learner": THREE, "flags": SEVERAL}, "4 actors cannot be split evenly over 3 learners"),
        ({"learner": TWO, "flags": {**SEVERAL, "batch_size": 5}}, "--batch_size=5 cannot be split evenly"),
        ({"flags": {**CATCH, "learner_replicas": 2}}, "take learner_replicas out of flags"),
        ({"sweep": {"space": "none.yaml", "trials": 2}}, "none.yaml cannot be read"),
        ({"sweep": {"space": "s.yaml", "trials": 0}}, "sweep: trials must be a whole number above 0"),
        ({"sweep": {"space": "low.yaml", "trials": 2}, "flags": None}, "--learning_rate=-1"),
        ({"sweep": {"space": "odd.yaml", "trials": 2}, "flags": None}, "Unknown flag --learning_rates"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_key(job_file, tmp_path, changes, sentence):
    for name, space in (
        ("low", "learning_rate: {uniform: [-1, 1]}"),
        ("odd", "learning_rates: {choice: [1]}"),
    ):
        text = f"environment: catch\nagent: vtrace\nspace:\n  {space}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ValueError) as caught:
        make(job_file(**changes))
    text = str(caught.value)
    assert sentence in text and "\n" not in text and text.endswith((".", "?"))


def test_the_estimate_multiplies_machines_hours_jobs_and_trials(job_file):
    learner = {"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4", "accelerators": 2}
    prices = {"n1-standard-8": 1.0, "n1-standard-4": 0.25, "NVIDIA_TESLA_T4": 2.0}
    job = read_job(job_file(learner=learner, prices=prices, timeout_hours=10), {})
    text = describe(job, 3)
    assert "1 x n1-standard-8 with 2 NVIDIA_TESLA_T4 for learning, 2 x n1-standard-4 for 4 actors and" in text
    assert "16 environments: $5.50 an hour by gcp/prices.yaml" in text
    assert "Runs: 3, which cost $16.50 an hour in all, and at most $165.00 if each takes all" in text
    job.sweep = SimpleNamespace(trials=8, parallel=2)
    assert "Runs: 8, which cost $11.00 an hour in all, and at most $440.00" in describe(job, 1)
    job.learner.accelerator = "NVIDIA_L4"
    assert "at an unknown price; add prices" in describe(job, 1)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_makes_its_jobs(path):
    job, made = make(path, project="my-project")
    assert job.display_name == path.stem
    assert "unknown" not in describe(job, len(made))
