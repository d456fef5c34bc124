"""Jobs that need more than the quota: one sentence, before anything is submitted."""

import pytest

from gcp import quota
from gcp.config import read_config
from seed_rl.flags.configs import configs_directory
from seed_rl.flags.errors import UsageError
from tests.gcp.refusal import refusal

A100 = {"machine": "a2-highgpu-1g", "accelerator": "NVIDIA_TESLA_A100"}
MANY_A100 = {"machine": "a2-highgpu-16g", "accelerator": "NVIDIA_TESLA_A100", "accelerators": 16}


def actors(replicas, machine="n1-standard-4"):
    return {"machine": machine, "replicas": replicas}


def test_a_job_that_needs_more_than_the_default_is_refused_before_anything_is_asked(send, cloud):
    text = refusal(send, actors=actors(549))
    assert "a run needs 2,204 vCPUs of N1 and E2 machines, and the quota is 2,200 by default" in text
    assert "--quota_vcpus=N" in text
    text = refusal(send, learner=MANY_A100)
    assert "a run needs 16 NVIDIA_TESLA_A100, and the quota is 8 by default" in text
    assert "--quota_accelerators=N" in text
    assert cloud.created == [] and cloud.asked == [] and cloud.filters == []


def test_flags_say_what_the_project_has(send, cloud):
    many = {"actors": actors(549), "flags": {"environment": "catch", "agent": "vtrace", "num_envs": 549}}
    send("--quota_vcpus=2204", **many)
    assert len(cloud.created) == 1
    text = refusal(send, "--quota_vcpus=2203", **many)
    assert "the quota is 2,203:" in text and "default" not in text
    learner = {"machine": "n1-standard-8", "accelerator": "NVIDIA_TESLA_T4"}
    assert "a run needs 1 NVIDIA_TESLA_T4, and the quota is 0:" in refusal(
        send, "--quota_accelerators=0", learner=learner
    )
    assert len(cloud.created) == 1


def test_jobs_that_do_not_fit_together_are_said_and_left_to_the_queue(send, cloud, capsys):
    send("--yes", learner=A100, each={"seed": list(range(1, 10))})
    said = [line for line in capsys.readouterr().err.splitlines() if "quota" in line]
    assert said == [
        "seed_rl: All runs together need 9 NVIDIA_TESLA_A100 (quota: 8 by default); Vertex AI queues what "
        "does not fit. If the project has another quota, set it with --quota_accelerators."
    ]
    assert len(cloud.created) == 9
    send("--yes", "--quota_accelerators=9", learner=A100, each={"seed": list(range(1, 10))})
    assert "quota" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "jobs", "needs"),
    [
        ("atari57", 57, ["14,136 vCPUs of N1 and E2 machines", "57 NVIDIA_TESLA_A100"]),
        ("dmlab", 4, ["16 NVIDIA_TESLA_A100"]),
        ("catch", 1, []),
    ],
)
def test_the_scenarios_say_what_they_need(name, jobs, needs):
    """A search counts as many runs as it has trials at the same time."""
    config = read_config(configs_directory() / "gcp" / f"{name}.yaml", {"project": "my-project"})
    text = quota.check_quota(config, jobs, None, None) or ""
    assert all(need in text for need in needs)
    assert text.count("(quota:") == len(needs)


@pytest.mark.parametrize(
    ("changes", "vcpus"),
    [
        ({}, 8 + 2 * 4),
        ({"learner": A100}, 2 * 4),
        ({"learner": {"machine": "n1-standard-8", "replicas": 2}}, 2 * 8 + 2 * 4),
        ({"actors": actors(3, "e2-highcpu-32")}, 8 + 96),
        ({"actors": actors(3, "n2-standard-8")}, 8),
    ],
)
def test_only_machines_of_the_families_n1_and_e2_count(job_file, changes, vcpus):
    config = read_config(job_file(**changes), {})
    assert quota.check_quota(config, 1, vcpus, None) is None
    with pytest.raises(UsageError, match=f"needs {vcpus} vCPUs"):
        quota.check_quota(config, 1, vcpus - 1, None)


@pytest.mark.parametrize("changes", [{"region": "europe-west4"}, {"spot": True}])
def test_where_no_default_is_known_nothing_is_said_without_a_flag(job_file, changes):
    config = read_config(job_file(learner=MANY_A100, **changes), {})
    assert quota.check_quota(config, 1, None, None) is None
    with pytest.raises(UsageError, match="needs 16 NVIDIA_TESLA_A100"):
        quota.check_quota(config, 1, None, 15)
