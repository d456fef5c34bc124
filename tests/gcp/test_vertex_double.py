"""The double of Vertex AI's jobs does what the documentation says, with containers of a few lines."""

import json
import signal

import pytest
from google.cloud.aiplatform_v1.types import ContainerSpec, CustomJobSpec, EnvVar, WorkerPoolSpec

from tests.waiting import wait_until

FOR_EVER = "import signal, sys; print('ready', flush=True); signal.pause()"


def spec(*codes, secret=""):
    """A job of one replica a pool, each given as Python code."""
    env = [EnvVar(name="SECRET", value=secret)]
    return CustomJobSpec(
        worker_pool_specs=[
            WorkerPoolSpec(
                replica_count=1,
                container_spec=ContainerSpec(command=["python", "-c", code], env=env if i == 0 else []),
            )
            for i, code in enumerate(codes)
        ]
    )


def test_a_job_succeeds_when_its_primary_replica_exits_with_0_and_the_others_are_shut_down(run_job):
    job = run_job(spec("pass", FOR_EVER))
    assert job.end()[:3] == ("JOB_STATE_SUCCEEDED", "", 1)
    assert job.codes == [{"workerpool0-0": 0, "workerpool1-0": -signal.SIGTERM}]


def test_another_replica_that_exits_with_0_does_not_end_the_job(run_job, tmp_path):
    waits = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'now')!r}): time.sleep(0.01)"
    job = run_job(spec(waits, "pass"))
    wait_until(lambda: job.ended_replicas() == ["workerpool1-0"], "the end of a replica")
    assert job.look() is None
    (tmp_path / "now").touch()
    assert job.end().state == "JOB_STATE_SUCCEEDED"


@pytest.mark.parametrize("codes", [("exit(3)", FOR_EVER), (FOR_EVER, "exit(3)")])
def test_a_non_zero_exit_of_any_replica_fails_the_job(run_job, codes):
    end = run_job(spec(*codes)).end()
    name = f"workerpool{codes.index('exit(3)')}-0"
    assert end.state == "JOB_STATE_FAILED" and end.attempts == 1
    assert end.error == f"The replica {name} exited with a non-zero status of 3. Termination reason: Error."


@pytest.mark.parametrize("code", ["exit(139)", "import os; os.abort()"])
def test_a_job_is_started_again_after_exits_that_may_pass(run_job, code):
    end = run_job(spec(code)).end()
    assert (end.state, end.attempts) == ("JOB_STATE_FAILED", 1 + 3)


def test_a_preempted_job_fails_with_stockout_and_is_started_again_six_times(run_job):
    job = run_job(spec(FOR_EVER))
    for attempt in range(1, 7):
        wait_until(lambda: job.output("workerpool0-0").count("ready") == attempt, "the start")  # noqa: B023
        job.preempt()
        assert job.look() is None and job.attempts == attempt + 1
    wait_until(lambda: job.output("workerpool0-0").count("ready") == 7, "the last start")
    job.preempt()
    end = job.end()
    assert end.state == "JOB_STATE_FAILED" and end.error.startswith("STOCKOUT") and end.attempts == 7


def test_every_container_is_told_the_whole_job(run_job):
    show = "import os; print(os.environ[{!r}])"
    job = run_job(spec(show.format("CLUSTER_SPEC"), FOR_EVER, secret="the key"))
    told = json.loads(job.end().outputs["workerpool0-0"])
    assert told["task"] == {"type": "workerpool0", "index": 0, "trial": ""}
    assert sorted(told["cluster"]) == ["workerpool0", "workerpool1"]
    (variable,) = told["job"]["worker_pool_specs"][0]["container_spec"]["env"]
    assert variable == {"name": "SECRET", "value": "the key"}
