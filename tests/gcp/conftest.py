"""A fake of Vertex AI's job service on loopback, for the real client of gcp.submit."""

import concurrent.futures
import re

import grpc
import pytest
import yaml
from google.cloud.aiplatform_v1 import types
from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport

from gcp import submit
from seed_rl.flags.errors import UsageError
from tests.gcp.vertex_double import VertexJob

KINDS = {"CustomJob": "custom_job", "HyperparameterTuningJob": "hyperparameter_tuning_job"}


class FakeCloud:
    """The service that gcp.submit talks to.

    Attributes:
      created: (parent, request) of every job, as it arrived.
      filters: the filters of requests to list jobs.
      jobs: (display name, state) of the existing jobs.
      refusals: (gRPC code, text) for the next requests to create a job; None accepts the job.
    """

    def __init__(self):
        self.created, self.filters, self.jobs, self.refusals = [], [], [], []
        handlers = {}
        for kind, field in KINDS.items():
            for verb, method, answer in (
                (f"Create{kind}", self._creator(field), kind),
                (f"List{kind}s", self._lister(kind, field), f"List{kind}sResponse"),
            ):
                request = getattr(types, f"{verb}Request").deserialize
                answered = getattr(types, answer).serialize
                handlers[verb] = grpc.unary_unary_rpc_method_handler(method, request, answered)
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        service = "google.cloud.aiplatform.v1.JobService"
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}")
        self._server.start()

    def connect(self, region):
        """The same client as that of `gcp.submit`, with a channel to this machine."""
        return JobServiceClient(transport=JobServiceGrpcTransport(channel=self._channel))

    def close(self):
        self._channel.close()
        self._server.stop(None).wait()

    def _creator(self, field):
        def create(request, context):
            refusal = self.refusals.pop(0) if self.refusals else None
            if refusal:
                context.abort(*refusal)
            job = getattr(request, field)
            self.created.append((request.parent, job))
            answer = type(job)(job)
            answer.name = f"{request.parent}/jobs/{len(self.created)}"
            return answer

        return create

    def _lister(self, kind, field):
        def list_jobs(request, context):
            self.filters.append(request.filter)
            states = re.findall(r'state="(\w+)"', request.filter)
            found = [(name, state) for name, state in self.jobs if state in states]
            jobs = [getattr(types, kind)(display_name=name, state=state) for name, state in found]
            return getattr(types, f"List{kind}sResponse")(**{f"{field}s": jobs})

        return list_jobs


@pytest.fixture
def cloud():
    found = FakeCloud()
    yield found
    found.close()


@pytest.fixture
def job_file(tmp_path):
    """Writes a job file: Catch on two replicas, except for the given changes; None removes a key."""

    def write(**changes):
        content = {
            "display_name": "catch",
            "project": "my-project",
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


@pytest.fixture
def refusal(send):
    """Submits a job that is refused; returns the one sentence."""

    def run(*flags, **changes):
        with pytest.raises(UsageError) as caught:
            send(*flags, **changes)
        text = str(caught.value)
        assert "\n" not in text and text.endswith((".", "?"))
        return text

    return run


@pytest.fixture
def run_job(tmp_path):
    """Runs jobs as Vertex AI does, until the test ends: `run_job(spec, *arguments, **environ)`."""
    jobs = []

    def start(spec, *arguments, **environ):
        jobs.append(VertexJob(tmp_path, spec, arguments, environ))
        return jobs[-1]

    yield start
    for job in jobs:
        job.close()
