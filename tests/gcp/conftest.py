"""Fakes of Vertex AI, Cloud Storage and an image registry on loopback, for the real client of gcp.submit."""

import concurrent.futures
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
import requests
import yaml
from google.cloud.aiplatform_v1 import types
from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport

from gcp import submit
from gcp.service import Service

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECS = 200.0
KINDS = {"CustomJob": "custom_job", "HyperparameterTuningJob": "hyperparameter_tuning_job"}


class FakeCloud:
    """The services that gcp.submit talks to.

    Attributes:
      created: (parent, request) of every job, as it arrived.
      routing: the routing headers of these requests.
      filters: the filters of requests to list jobs.
      unended: display names of jobs that have not ended.
      refusals: (gRPC code, text) for the next requests to create a job; None accepts the job.
      statuses: HTTP status by path of a bucket or an image; 200 for all others.
      asked: the (method, path) of every HTTP request.
    """

    def __init__(self):
        self.created, self.routing, self.filters, self.unended, self.refusals = [], [], [], [], []
        self.statuses, self.asked = {}, []
        handlers = {}
        for kind, field in KINDS.items():
            create, listed = getattr(types, f"Create{kind}Request"), getattr(types, f"List{kind}sRequest")
            handlers[f"Create{kind}"] = grpc.unary_unary_rpc_method_handler(
                self._creator(field), create.deserialize, getattr(types, kind).serialize
            )
            handlers[f"List{kind}s"] = grpc.unary_unary_rpc_method_handler(
                self._lister(kind, field),
                listed.deserialize,
                getattr(types, f"List{kind}sResponse").serialize,
            )
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        service = "google.cloud.aiplatform.v1.JobService"
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
        self._vertex = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self._web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.registry = f"127.0.0.1:{self._web.server_port}"
        self._thread = threading.Thread(target=self._web.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self._channel = grpc.insecure_channel(self._vertex)

    def connect(self, region):
        """Replaces `gcp.service.connect`: the same client, with channels to this machine."""
        session = requests.Session()
        session.trust_env = False
        client = JobServiceClient(transport=JobServiceGrpcTransport(channel=self._channel))
        return Service(client, session, f"http://{self.registry}")

    def close(self):
        self._channel.close()
        self._server.stop(None).wait()
        if self._thread.is_alive():
            self.close_web()

    def close_web(self):
        """Shuts down the storage and the registry."""
        self._web.shutdown()
        self._web.server_close()
        self._thread.join()

    def _creator(self, field):
        def create(request, context):
            refusal = self.refusals.pop(0) if self.refusals else None
            if refusal:
                context.abort(*refusal)
            job = getattr(request, field)
            self.created.append((request.parent, job))
            self.routing.append(dict(context.invocation_metadata())["x-goog-request-params"])
            answer = type(job)(job)
            answer.name = f"{request.parent}/jobs/{len(self.created)}"
            return answer

        return create

    def _lister(self, kind, field):
        def list_jobs(request, context):
            self.filters.append(request.filter)
            jobs = [getattr(types, kind)(display_name=name) for name in self.unended]
            return getattr(types, f"List{kind}sResponse")(**{f"{field}s": jobs})

        return list_jobs

    def _handler(cloud):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                path = self.path.partition("?")[0]
                cloud.asked.append((self.command, path))
                self.send_response(cloud.statuses.get(path, 200))
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_HEAD = answer

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def cloud():
    found = FakeCloud()
    yield found
    found.close()


@pytest.fixture
def job_file(tmp_path, cloud):
    """Writes a job file: Catch on two replicas, except for the given changes; None removes a key."""

    def write(**changes):
        content = {
            "display_name": "catch",
            "project": "my-project",
            "repository": f"{cloud.registry}/my-project/seed-rl",
            "learner": {"machine": "n1-standard-8"},
            "actors": {"machine": "n1-standard-4", "replicas": 2, "processes": 2, "environments": 4},
            "flags": {"environment": "catch", "agent": "vtrace"},
        }
        content = {key: value for key, value in {**content, **changes}.items() if value is not None}
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    return write


@pytest.fixture
def send(cloud, job_file):
    """Submits a job of `job_file` to the fake cloud: `send(*flags, **changes)`."""

    def run(*flags, **changes):
        return submit.main(["gcp.submit", f"--config={job_file(**changes)}", *flags], cloud.connect)

    return run


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class FakeRun:
    """Runs a job as Vertex AI would: every replica's command, with the cluster in its environment.

    Containers become processes on this host, and the mount of buckets becomes a directory.
    """

    def __init__(self, directory, spec, arguments=(), environ=None):
        self.buckets = directory / "buckets"
        self._processes = {}
        cluster = {
            f"workerpool{i}": [f"127.0.0.1:{free_port()}" for _ in range(pool.replica_count)]
            for i, pool in enumerate(spec.worker_pool_specs)
        }
        for i, pool in enumerate(spec.worker_pool_specs):
            for index in range(pool.replica_count):
                task = {"type": f"workerpool{i}", "index": index}
                text = json.dumps({"cluster": cluster, "environment": "cloud", "task": task})
                log = directory / f"{task['type']}_{index}.txt"
                self._processes[log] = self._start(pool.container_spec, text, arguments, environ or {}, log)

    def _start(self, container, cluster_spec, arguments, environ, log):
        assert container.command[0] == "python"
        command = [sys.executable, *container.command[1:], *container.args, *arguments]
        with open(log, "wb") as output:
            return subprocess.Popen(
                [*command, f"--gcs_mount={self.buckets}"],
                cwd=log.parent,
                env={
                    **os.environ,
                    **{variable.name: variable.value for variable in container.env},
                    **environ,
                    "CLUSTER_SPEC": cluster_spec,
                    "PYTHONPATH": str(ROOT),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def end(self):
        """Waits until all replicas have ended on their own; returns (exit code, output) by the log's name."""
        deadline = time.monotonic() + DEADLINE_SECS
        for log, process in self._processes.items():
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                pytest.fail(f"{log.stem} did not end: {log.read_text()}")
        return {log.stem: (process.returncode, log.read_text()) for log, process in self._processes.items()}

    def close(self):
        for process in self._processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def fake_run(tmp_path):
    """Starts fake runs of job specs, and ends them with the test."""
    runs = []

    def start(spec, *arguments, **environ):
        runs.append(FakeRun(tmp_path, spec, arguments, environ))
        return runs[-1]

    yield start
    for run in runs:
        run.close()
