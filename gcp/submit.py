r"""Submits a training job to Vertex AI: one learner or several and many actors, or a hyperparameter search.

Examples:
  seed_rl submit configs/gcp/catch.yaml --project=MY-PROJECT --dry_run
  seed_rl submit configs/gcp/catch.yaml --project=MY-PROJECT

--dry_run prints the requests as JSON and sends nothing. In any case, the cost of the machines is estimated
first. More than one run is submitted only with --yes. A job that has not ended is not submitted again.
"""

import contextlib
import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from seed_rl.files import read_yaml
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import say
from seed_rl.options import Options, option

_SECONDS = 60.0
# A job that is being cancelled still writes its last checkpoint.
_LIVING = ("QUEUED", "PENDING", "RUNNING", "CANCELLING", "PAUSED", "UPDATING")
_UNENDED = " OR ".join(f'state="JOB_STATE_{state}"' for state in _LIVING)


@dataclasses.dataclass(frozen=True)
class SubmitConfig(Options):
    """The command line; the job itself is described in its file."""

    config: str | None = option(None, "YAML file of the job, such as configs/gcp/catch.yaml.", is_path=True)
    project: str | None = option(None, "Id of the Google Cloud project; overrides the file's.")
    region: str | None = option(None, "Region such as us-central1; overrides the file's.")
    learner_replicas: int | None = option(None, "Learner hosts; overrides the file's.", at_least=1)
    dry_run: bool = option(False, "Print the requests as JSON, and send nothing.")
    yes: bool = option(False, "Submit more than one run.")


def _connect(region: str) -> Any:
    """Google's client with the application default credentials of this machine."""
    from google.cloud.aiplatform_v1 import JobServiceClient

    return JobServiceClient(client_options={"api_endpoint": f"{region}-aiplatform.googleapis.com"})


def main(argv: list[str], connect: Callable[[str], Any] = _connect) -> int:
    """Submits the jobs; returns the exit code. `connect` makes the client for a region."""
    options, _ = parse_options(argv, __doc__ or "", SubmitConfig, positional=("config",))
    if options.config is None:
        raise UsageError("No job is chosen; add its file: seed_rl submit configs/gcp/catch.yaml.")
    # At every import, Google's packages warn about the versions of Python and grpcio they need next year.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\..*")
    try:
        from google.cloud import aiplatform_v1 as vertex_ai
        from google.protobuf.json_format import ParseError

        from gcp import job as job_file
    except ImportError as error:
        raise UsageError(f"{error}; install Google's client with pip install -e '.[gcp]'.") from None
    overrides = {key: value for key in ("project", "region") if (value := getattr(options, key))}
    with usage_errors():
        job = job_file.read_job(Path(options.config), overrides)
        job.learner.replicas = options.learner_replicas or job.learner.replicas
        requests = job_file.make_requests(job)
    kind = vertex_ai.CreateHyperparameterTuningJobRequest if job.sweep else vertex_ai.CreateCustomJobRequest
    try:
        messages = {name: kind.from_json(json.dumps(request)) for name, request in requests.items()}
    except ParseError as error:
        reason = str(error).rpartition("field: ")[2].rstrip(".")
        raise UsageError(f"{options.config} describes no job of Vertex AI: {reason}.") from None
    say(describe(job, len(requests)))
    if options.dry_run:
        shown = json.loads(json.dumps(list(requests.values())), object_hook=_without_secret)
        print(json.dumps(shown, indent=2))
    else:
        submit(job, messages, connect, options.yes)
    return 0


def _without_secret(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a request; if it is an environment variable, with another value."""
    return {**content, "value": "(a secret, created for each job)"} if "value" in content else content


def describe(job: SimpleNamespace, jobs: int) -> str:
    """The machines and the cost of so many jobs.

    The length of a job depends on the run, so the total is the most that jobs can cost until their time-outs.
    """
    table = read_yaml(Path(__file__).with_name("prices.yaml"))
    prices = {**table["machines"], **table["accelerators"], "": 0.0, **job.prices}

    def price(kind: str) -> float:
        family = kind.rstrip("0123456789")
        return prices.get(kind, float(kind[len(family) :] or "nan") * prices.get(family, math.nan))

    learner, actors = job.learner, job.actors
    learner_price = price(learner.machine) + learner.accelerators * price(learner.accelerator)
    hourly = learner.replicas * learner_price + actors.replicas * price(actors.machine)
    accelerators = f" with {learner.accelerators} {learner.accelerator}" if learner.accelerator else ""
    machines = (
        f"{learner.replicas} x {learner.machine}{accelerators} for learning, {actors.replicas} x "
        f"{actors.machine} for {actors.replicas * actors.processes} actors and {job.num_envs} environments"
    )
    if math.isnan(hourly):
        return f"{machines}, at an unknown price; add prices: {{TYPE: DOLLARS_AN_HOUR}} to the job's file."
    trials, parallel = (job.sweep.trials, job.sweep.parallel) if job.sweep else (1, 1)
    most = jobs * trials * hourly * job.timeout_hours
    return (
        f"{machines}: ${hourly:,.2f} an hour by gcp/prices.yaml ({table['date']}), without traffic, disks "
        f"and discounts. Runs: {jobs * trials}, which cost ${jobs * min(parallel, trials) * hourly:,.2f} an "
        f"hour in all, and at most ${most:,.2f} if each takes all of its {job.timeout_hours:g} h."
    )


def submit(job: SimpleNamespace, requests: Mapping[str, Any], connect: Any, yes: bool) -> None:
    """Submits the jobs that run nowhere yet; `requests` are Google's messages by the jobs' names.

    Raises:
      UsageError: with one sentence. Jobs before the one that failed were submitted, as logged.
    """
    with _one_sentence(job):
        client = connect(job.region)
        query = {"parent": f"projects/{job.project}/locations/{job.region}", "filter": _UNENDED}
        lists = (client.list_custom_jobs, client.list_hyperparameter_tuning_jobs)
        unended = {found.display_name for ask in lists for found in ask(query, timeout=_SECONDS)}
        for name in sorted(requests.keys() & unended):
            say(f"{name} has not ended yet, so it is not submitted again.")
        left = [name for name in requests if name not in unended]
        runs = len(left) * (job.sweep.trials if job.sweep else 1)
        if not left:
            raise UsageError("There is nothing to submit; wait until these jobs end, or change display_name.")
        if runs > 1 and not yes:
            raise UsageError(f"These are {runs} runs; add --yes to submit them.")
        create = client.create_hyperparameter_tuning_job if job.sweep else client.create_custom_job
        for name in left:
            made = create(requests[name], timeout=_SECONDS)
            say(f"submitted {name} as {made.name}; its run directory is {job.directory}/{name}.")


@contextlib.contextmanager
def _one_sentence(job: SimpleNamespace) -> Iterator[None]:
    """Turns errors of Google's client into a UsageError."""
    from google.api_core.exceptions import GoogleAPICallError, Unauthenticated
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (GoogleAuthError, GoogleAPICallError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        # The second is a token that cannot be refreshed.
        if isinstance(error, GoogleAuthError | Unauthenticated) or "metadata from plugin" in reason:
            raise UsageError(
                "There are no credentials that Google Cloud accepts; run gcloud auth application-default "
                f"login, or set GOOGLE_APPLICATION_CREDENTIALS ({reason})."
            ) from None
        raise UsageError(
            f"Vertex AI did not take the job in project {job.project} and region {job.region}; change what "
            f"it names, or check the network and try again ({reason})."
        ) from None
