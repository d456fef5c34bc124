"""A job file, and the requests to Vertex AI that it stands for; nothing is sent here. See docs/gcp.md."""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any

from seed_rl.commands import vertex
from seed_rl.environments.base import nearest
from seed_rl.files import read_mapping
from seed_rl.flags.errors import UsageError
from seed_rl.flags.settings import Settings
from seed_rl.launch.credentials import make_credentials
from seed_rl.launch.plan import check_split
from seed_rl.sweeps.space import Distribution, Value, as_flags, as_text, read_space

# The keys of a job file and of its sections, with their defaults; those that are required have a type.
_KEYS: dict[str, dict[str, Any]] = {
    "": {
        "display_name": str,
        "project": str,
        "learner": dict,
        "actors": dict,
        "sweep": {},
        "region": "us-central1",
        "bucket": "",
        "repository": "",
        "service_account": "",
        "labels": {},
        "spot": False,
        "restart": "replica",
        "timeout_hours": 24.0,
        "flagfile": "",
        "flags": {},
        "each": {},
        "prices": {},
    },
    "learner": {"machine": str, "replicas": 1, "accelerator": "", "accelerators": 1, "image": ""},
    "actors": {"machine": str, "replicas": int, "processes": 1, "environments": 1, "image": ""},
    "sweep": {"space": str, "trials": int, "parallel": 1},
}
_WORDS: dict[Any, str] = {
    int: "a whole number above 0",
    float: "a number above 0",
    bool: "true or false",
    str: "text",
    int | float: "a number",
    dict: "a mapping, KEY: VALUE",
    list: "a list in brackets",
    Value: "a number, text, true or false",
}
# The field and the scale of a parameter of Vertex AI, by the kind of the distribution.
_RANGES = {
    "uniform": ("doubleValueSpec", "UNIT_LINEAR_SCALE"),
    "log_uniform": ("doubleValueSpec", "UNIT_LOG_SCALE"),
    "int_uniform": ("integerValueSpec", "UNIT_LINEAR_SCALE"),
}


def read_job(path: Path, overrides: Mapping[str, str]) -> SimpleNamespace:
    """Reads and checks a job file; keys in `overrides` are from the command line, and override the file's.

    Returns:
      The file's keys as attributes, and those of `learner`, `actors` and `sweep` (None without one) as
      theirs. `directory` is that of all run directories, `space` the content of the sweep's file, and
      `num_envs` the environments of all actors together.

    Raises:
      ValueError: one sentence that names the file, the key and what is wrong with it.
    """
    job = _read("", {**read_mapping("config", path), **overrides}, f"{path}: ")
    job.learner = _read("learner", job.learner, f"{path}: learner: ")
    job.actors = _read("actors", job.actors, f"{path}: actors: ")
    job.sweep = _read("sweep", job.sweep, f"{path}: sweep: ") if job.sweep else None
    for name, kind in (("labels", str), ("prices", int | float), ("flags", Value), ("each", list)):
        for key, value in getattr(job, name).items():
            _checked(value, kind, f"{path}: {name}: {key}")
    if job.restart not in ("replica", "job", "never"):
        raise ValueError(f"{path}: restart must be one of replica, job, never, not {job.restart!r}.")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", job.display_name, re.ASCII):
        raise ValueError(f"{path}: display_name must have letters, digits, _, . and - only.")
    job.directory = (job.bucket or f"gs://{job.project}-seed-rl").rstrip("/")
    if not job.directory.startswith("gs://"):
        raise ValueError(f"{path}: bucket must be gs://BUCKET or gs://BUCKET/DIRECTORY, not {job.bucket!r}.")
    job.num_envs = job.actors.replicas * job.actors.processes * job.actors.environments
    # Paths in the file are relative to its directory.
    job.flagfile = job.flagfile and path.parent / os.path.expanduser(job.flagfile)
    job.space = read_space(path.parent / os.path.expanduser(job.sweep.space)) if job.sweep else None
    return job


def _read(section: str, content: dict[str, Any], where: str) -> SimpleNamespace:
    """The values of a section of the file, with defaults for those that it leaves out."""
    keys = _KEYS[section]
    for key in content:
        if key not in keys:
            near = nearest(str(key), keys) or list(keys)
            raise ValueError(f"{where}the key {key!r} is unknown; did you mean {' or '.join(near)}?")
    found = {}
    for key, default in keys.items():
        is_required = isinstance(default, type)
        value = default if content.get(key) is None else content[key]
        if value is default and is_required:
            hint = " or give --project" if key == "project" else ""
            raise ValueError(f"{where}there is no {key}; add a line {key}: …{hint}.")
        found[key] = _checked(value, default if is_required else type(default), f"{where}{key}")
    return SimpleNamespace(**found)


def _checked(value: Any, kind: Any, where: str) -> Any:
    """The value, if it is of that kind: for numbers, above 0; for lists, not empty."""
    if kind is float and type(value) is int:
        value = float(value)
    is_kind = isinstance(value, kind) if isinstance(kind, UnionType) else type(value) is kind
    if not is_kind or value == [] or (kind in (int, float) and not 0 < value < 1e5):
        raise ValueError(f"{where} must be {_WORDS[kind]}, not {value!r:.80}.")
    return value


def make_requests(job: SimpleNamespace) -> dict[str, dict[str, Any]]:
    """The requests for a job file as JSON values, by the name of the job, in the order of its `each`.

    Each is {"parent": …, KIND: …}, where KIND is customJob or hyperparameterTuningJob.

    Raises:
      UsageError: a flag or a space that seed_rl would refuse, or two jobs with the same name.
    """
    requests: dict[str, dict[str, Any]] = {}
    for values in itertools.product(*job.each.values()):
        name = "_".join([job.display_name, *(re.sub(r"[^\w.-]+", "-", str(value)) for value in values)])
        if name in requests:
            raise UsageError(f"two jobs have the same name, {name}; change the values in each.")
        requests[name] = _request(job, name, dict(zip(job.each, values, strict=True)))
    return requests


def _request(job: SimpleNamespace, name: str, values: dict[str, Value]) -> dict[str, Any]:
    logdir = f"{job.directory}/{name}"
    flags = _flags(job, values, logdir)
    spec = _job_spec(job, vertex.job_arguments(_parse(job, flags)), logdir)
    request: dict[str, Any] = {"parent": f"projects/{job.project}/locations/{job.region}"}
    body: dict[str, Any] = {"displayName": name, "labels": job.labels}
    if job.sweep is None:
        return {**request, "customJob": {**body, "jobSpec": spec}}
    for parameter, distribution in job.space.parameters.items():
        for value in distribution.values:  # Every bound and choice must be valid for its flag.
            _parse(job, [*flags, f"--{parameter}={as_text(value)}"])
    body["studySpec"] = {
        "metrics": [{"metricId": vertex.METRIC, "goal": "MAXIMIZE"}],
        "parameters": [_parameter(flag, drawn) for flag, drawn in job.space.parameters.items()],
        "algorithm": "RANDOM_SEARCH",
    }
    parallel = min(job.sweep.parallel, job.sweep.trials)
    body |= {"maxTrialCount": job.sweep.trials, "parallelTrialCount": parallel}
    return {**request, "hyperparameterTuningJob": {**body, "trialJobSpec": spec}}


def _flags(job: SimpleNamespace, values: dict[str, Value], logdir: str) -> list[str]:
    """All flags of a job; if one is repeated, its last value counts."""
    flags = [f"--flagfile={job.flagfile}"] if job.flagfile else []
    flags += ["--require_accelerator"] if job.learner.accelerator else []
    if space := job.space:
        flags += [f"--flagfile={space.flagfile}"] if space.flagfile else []
        flags += [f"--environment={space.environment}", f"--agent={space.agent}", *as_flags(space.flags)]
    flags += ["--learner_restarts=0"] if job.restart == "never" else []
    chosen = {**job.flags, **values}
    computed = {
        "num_envs": job.num_envs,
        "env_batch_size": job.actors.environments,
        "actors_per_replica": job.actors.processes,
        "learner_replicas": job.learner.replicas,
        "logdir": logdir,
    }
    for name in chosen.keys() & computed.keys():
        raise UsageError(f"take {name} out of flags and each; other keys of the job's file determine it.")
    return [*flags, *as_flags({**chosen, **computed})]


def _parse(job: SimpleNamespace, flags: Sequence[str]) -> Settings:
    """Resolves flags as the containers will."""
    settings = vertex.parse_job(["gcp.submit", *flags])
    num_actors = job.actors.replicas * job.actors.processes
    check_split(job.learner.replicas, num_actors, job.num_envs, settings.values["batch_size"])
    return settings


def _parameter(name: str, distribution: Distribution) -> dict[str, Any]:
    """The parameter for a flag. Choices are passed as text, so the flag gets exactly the text in the file."""
    if distribution.kind == "choice":
        texts = [as_text(value) for value in distribution.values]
        return {"parameterId": name, "categoricalValueSpec": {"values": texts}}
    field, scale = _RANGES[distribution.kind]
    low, high = distribution.values
    return {"parameterId": name, field: {"minValue": low, "maxValue": high}, "scaleType": scale}


def _job_spec(job: SimpleNamespace, arguments: Sequence[str], logdir: str) -> dict[str, Any]:
    """The specification of a job, or of each trial of a search, with new credentials."""
    credentials, learner, actors = make_credentials("gcp"), job.learner, job.actors
    registry = f"{job.region}-docker.pkg.dev/{job.project.replace(':', '/')}/seed-rl"
    machine: dict[str, Any] = {"machineType": learner.machine}
    if learner.accelerator:
        machine |= {"acceleratorType": learner.accelerator, "acceleratorCount": learner.accelerators}

    def pool(image: str, machine: dict[str, Any], replicas: int, secrets: dict[str, str]) -> dict[str, Any]:
        container = {
            "imageUri": image,
            "command": ["python", "-m", "seed_rl", "vertex"],
            "args": list(arguments),
            "env": [{"name": name, "value": value} for name, value in secrets.items()],
        }
        return {"machineSpec": machine, "replicaCount": replicas, "containerSpec": container}

    learner_image = learner.image or f"{job.repository or registry}/learner:latest"
    actor_image = actors.image or f"{job.repository or registry}/actor:latest"
    counts = [1, learner.replicas - 1] if learner.replicas > 1 else [1]
    return {
        "workerPoolSpecs": [
            *(pool(learner_image, machine, count, credentials.learner) for count in counts),
            pool(actor_image, {"machineType": actors.machine}, actors.replicas, credentials.actor),
        ],
        "scheduling": {
            "timeout": f"{3600 * job.timeout_hours:.0f}s",
            "strategy": "SPOT" if job.spot else "STANDARD",
            "restartJobOnWorkerRestart": job.restart == "job",
            "disableRetries": job.restart == "never",
        },
        "serviceAccount": job.service_account,
        "baseOutputDirectory": {"outputUriPrefix": logdir},
    }
