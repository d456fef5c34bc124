"""A job on Vertex AI as its documentation describes it, with containers as processes of this machine.

https://docs.cloud.google.com/vertex-ai/docs/training/understanding-training-service,
.../distributed-training (CLUSTER_SPEC) and .../use-spot-vms (STOCKOUT) say what is done here:

* The job has succeeded when its primary replica (the first of worker pool 0) exits with 0; all others are
  shut down. A replica of another pool may end with 0.
* A non-zero exit of any replica fails the job, and all others are shut down.
* When a spot machine is taken back, the replicas get SIGTERM and 30 s, the job fails with STOCKOUT, and is
  started again up to six times.
* CLUSTER_SPEC and TF_CONFIG have the specification that was submitted in their field `job`.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from google.cloud.aiplatform_v1.types import CustomJobSpec

from tests.ports import VERTEX, free_ports
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECS = 240.0
# Of 30 s that a spot machine gives, for machines that are busy with other tests.
NOTICE_SECS = 120.0

MOST_RETRIES = 6
PRIMARY = "workerpool0-0"


class End(NamedTuple):
    """End of a job, after so many attempts, with the outputs of its replicas by their names."""

    state: str  # JOB_STATE_SUCCEEDED or JOB_STATE_FAILED.
    error: str  # The service's own words; empty for a success.
    attempts: int
    outputs: dict[str, str]


class VertexJob:
    """Runs the job of a specification; its replicas' hosts are this machine, and the mount is a directory."""

    def __init__(self, directory, spec, arguments=(), environ=None):
        """Starts the first attempt of a CustomJobSpec; outputs and the buckets are in the directory.

        `arguments` of the containers come after those of the specification, such as a trial's drawn values;
        `environ` has further variables of all containers.
        """
        self.buckets = directory / "buckets"
        self.attempts = 0
        self.codes = []
        self._directory, self._spec = directory, spec
        self._arguments, self._environ = arguments, environ or {}
        self._preempted = False
        self._processes = {}
        self._start()

    @property
    def names(self):
        pools = enumerate(self._spec.worker_pool_specs)
        return [f"workerpool{i}-{index}" for i, pool in pools for index in range(pool.replica_count)]

    def pid(self, name=PRIMARY):
        return self._processes[name].pid

    def output(self, name):
        path = self._directory / f"{name}.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def preempt(self):
        """Takes a spot machine back: SIGTERM for everything, and after the notice SIGKILL."""
        self._preempted = True
        for process in self._processes.values():
            process.terminate()

    def end(self):
        """Waits until the job has ended for good."""
        return wait_until(
            self.look, lambda: f"the job's end: {[self.output(name) for name in self.names]}", DEADLINE_SECS
        )

    def close(self):
        for process in self._processes.values():
            process.kill()
            process.wait()

    def look(self):
        """End of the job; None while it runs, or starts again."""
        if self._preempted:
            self._shut_down(NOTICE_SECS)
            if self._processes[PRIMARY].returncode == 0:
                return self._ended("JOB_STATE_SUCCEEDED", "")
            self._preempted = False
            if self.attempts > MOST_RETRIES:
                return self._ended("JOB_STATE_FAILED", "STOCKOUT: a spot machine was preempted.")
            self._start()
            return None
        codes = {name: process.poll() for name, process in self._processes.items()}
        if codes[PRIMARY] == 0:
            self._shut_down()
            return self._ended("JOB_STATE_SUCCEEDED", "")
        failed = next(((name, code) for name, code in codes.items() if code), None)
        if failed is None:
            return None
        self._shut_down()
        name, code = failed[0], failed[1] if failed[1] > 0 else 128 - failed[1]
        error = f"The replica {name} exited with a non-zero status of {code}. Termination reason: Error."
        return self._ended("JOB_STATE_FAILED", error)

    def _ended(self, state, error):
        return End(state, error, self.attempts, {name: self.output(name) for name in self.names})

    def _shut_down(self, seconds=30.0):
        deadline = time.monotonic() + seconds
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self.close()
        self.codes.append({name: process.returncode for name, process in self._processes.items()})

    def _start(self):
        self.attempts += 1
        ports = iter(free_ports(len(self.names), VERTEX))
        cluster = {
            f"workerpool{i}": [f"127.0.0.1:{next(ports)}" for _ in range(pool.replica_count)]
            for i, pool in enumerate(self._spec.worker_pool_specs)
        }
        for name in self.names:
            pool, _, index = name.partition("-")
            task = {"type": pool, "index": int(index), "trial": self._environ.get("CLOUD_ML_TRIAL_ID", "")}
            job = CustomJobSpec.to_dict(self._spec)
            text = json.dumps({"cluster": cluster, "environment": "cloud", "task": task, "job": job})
            container = self._spec.worker_pool_specs[int(pool.removeprefix("workerpool"))].container_spec
            self._processes[name] = self._container(name, container, text)

    def _container(self, name, container, cluster_spec):
        assert container.command[0] == "python"
        # The mount is a directory here, and /gcs in a container.
        arguments = [arg.replace("=gs://", f"={self.buckets}/", 1) for arg in container.args]
        command = [sys.executable, *container.command[1:], *arguments, *self._arguments]
        with open(self._directory / f"{name}.txt", "ab") as output:
            return subprocess.Popen(
                command,
                cwd=self._directory,
                env={
                    **os.environ,
                    **{variable.name: variable.value for variable in container.env},
                    **self._environ,
                    "CLUSTER_SPEC": cluster_spec,
                    "TF_CONFIG": cluster_spec,
                    "PYTHONPATH": str(ROOT),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
