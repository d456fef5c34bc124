r"""Submits a training job to Vertex AI: one learner or several and many actors, or a hyperparameter search.

Examples:
  seed_rl submit configs/gcp/catch.yaml --project=MY-PROJECT --dry_run
  seed_rl submit configs/gcp/catch.yaml --project=MY-PROJECT

--dry_run prints the requests as JSON and sends nothing. In any case, the cost of the machines is estimated
first, and their number is compared with the quota. More than one run is submitted only with --yes or a typed
confirmation. A job that has not ended is not submitted again.
"""

import dataclasses
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import say
from seed_rl.options import Options, option

if TYPE_CHECKING:
    from gcp.config import JobConfig
    from gcp.jobs import Job
    from gcp.service import Service


@dataclasses.dataclass(frozen=True)
class SubmitConfig(Options):
    """The command line; the job itself is described in its file."""

    config: str | None = option(None, "YAML file of the job, such as configs/gcp/catch.yaml.", is_path=True)
    project: str | None = option(None, "Id of the Google Cloud project; overrides the file's.")
    region: str | None = option(None, "Region such as us-central1; overrides the file's.")
    learner_replicas: int | None = option(
        None, "Learner hosts, each on a machine of its own; overrides the file's.", at_least=1
    )
    measured: str | None = option(
        None,
        "Results of benchmarks.impala, as FILE:CASE/WAY (runs/impala.json:pong/grpc), by which the speed and "
        "the cost of 10^9 frames are estimated as well.",
        is_path=True,
    )
    dry_run: bool = option(False, "Print the requests as JSON, and send nothing.")
    yes: bool = option(False, "Submit more than one run without asking.")
    quota_vcpus: int | None = option(
        None,
        "vCPUs of N1 and E2 machines that the project's quota for training allows in the region; by default "
        "2,200.",
        at_least=0,
    )
    quota_accelerators: int | None = option(
        None,
        "Accelerators of the learner's kind that the quota allows; by default 8 A100 in us-central1, and no "
        "known limit for others.",
        at_least=0,
    )


def main(argv: list[str], connect: "Callable[[str], Service] | None" = None) -> int:
    """Submits the jobs; returns the exit code. `connect` is `gcp.service.connect` unless it is given."""
    options, _ = parse_options(argv, __doc__ or "", SubmitConfig, positional=("config",))
    if options.config is None:
        raise UsageError("No job is chosen; add its file: seed_rl submit configs/gcp/catch.yaml.")
    # At every import, Google's packages warn about the versions of Python and grpcio they need next year.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\..*")
    try:
        from gcp import config as job_config
        from gcp import estimate, jobs, quota, service
    except ImportError as error:
        raise UsageError(f"{error}; install Google's client with pip install -e '.[gcp]'.") from None
    overrides = {key: value for key in ("project", "region") if (value := getattr(options, key))}
    with usage_errors():
        config = job_config.read_config(Path(options.config), overrides)
        if options.learner_replicas is not None:
            learner = dataclasses.replace(config.learner, replicas=options.learner_replicas)
            config = dataclasses.replace(config, learner=learner)
        made = jobs.make_jobs(config)
    print(estimate.describe(config, len(made)), file=sys.stderr, flush=True)
    if options.measured is not None:
        print(_measured(options.measured, config), file=sys.stderr, flush=True)
    shortage = quota.check_quota(config, len(made), options.quota_vcpus, options.quota_accelerators)
    if shortage:
        say(shortage)
    if options.dry_run:
        print(json.dumps([shown(job, config) for job in made], indent=2))
        return 0
    submit(made, config, (connect or service.connect)(config.region), options.yes)
    return 0


def _measured(text: str, config: "JobConfig") -> str:
    """The estimate by a row that benchmarks.impala has measured."""
    from benchmarks.cost import read
    from gcp.estimate import describe_measured

    file, _, row = text.rpartition(":")
    found = read(Path(file or text))
    names = {f"{case}/{way}": figures for (case, way), figures in found.items()}
    if row not in names:
        raise UsageError(
            f"--measured={text} names no row; write {file or text}:ROW, one of: {', '.join(names)}."
        )
    return describe_measured(config, names[row], f"{file}, {row}")


def submit(made: "Sequence[Job]", config: "JobConfig", service: "Service", yes: bool) -> None:
    """Checks what can be seen from here, asks for confirmation of several runs, and submits the jobs.

    Raises:
      UsageError: with one sentence; nothing was submitted unless it says so.
    """
    bucket_problem = service.bucket_problem(config.directory, config.region)
    for problem in (bucket_problem, *map(service.image_problem, config.images)):
        if problem:
            say(f"{problem}; Vertex AI will report it if it is missing.")
    unended = service.unended(config.parent)
    left = [job for job in made if job.name not in unended]
    for job in made:
        if job not in left:
            say(f"{job.name} has not ended yet, so it is not submitted again.")
    if not left:
        raise UsageError("There is nothing to submit; wait until these jobs end, or change display_name.")
    runs = len(left) * (config.sweep.trials if config.sweep else 1)
    if runs > 1 and not yes:
        _confirm(runs)
    for number, job in enumerate(left):
        try:
            name = service.create(config.parent, job.request)
        except UsageError as error:
            if number == 0:
                raise
            raise UsageError(
                f"{number} of {len(left)} jobs were submitted, {job.name} was not; the same command submits "
                f"the rest: {error}"
            ) from None
        say(f"submitted {job.name} as {name}; its run directory is {job.logdir}.")


def shown(job: "Job", config: "JobConfig") -> dict[str, Any]:
    """A request as the service's JSON, without the secrets in it."""
    content = json.loads(
        type(job.request).to_json(
            job.request, use_integers_for_enums=False, always_print_fields_with_no_presence=False
        )
    )
    for pool in content.get("trialJobSpec", content.get("jobSpec"))["workerPoolSpecs"]:
        for variable in pool["containerSpec"]["env"]:
            variable["value"] = "(a secret, created for each job)"
    kind = type(job.request).__name__
    return {"parent": config.parent, kind[0].lower() + kind[1:]: content}


def _confirm(runs: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"These are {runs} runs; add --yes to submit them without being asked.")
    if input(f"Type {runs} to submit {runs} runs: ").strip() != str(runs):
        raise UsageError("Nothing was submitted, because the number was not typed.")
