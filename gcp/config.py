"""A job's configuration: a YAML file, read into frozen dataclasses and checked before anything is sent.

    display_name: catch
    project: MY-PROJECT                  # or --project
    region: us-central1                  # or --region
    bucket: gs://MY-BUCKET/runs          # the run directory is BUCKET/DISPLAY_NAME
    learner: {machine: n1-standard-8, accelerator: NVIDIA_TESLA_T4}
    actors: {machine: n1-standard-4, replicas: 4, processes: 4, environments: 4}
    flagfile: ../small/catch_vtrace.flags    # relative to this file
    flags: {total_environment_frames: 1e6}   # win over the flagfile

The fields of `JobConfig` below are all keys, with their defaults.
"""

import dataclasses
import os
import re
import reprlib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seed_rl.environments.base import nearest
from seed_rl.files import read_mapping
from seed_rl.sweeps.space import Value

RESTARTS = ("replica", "job", "never")

_MOST = 1e5  # Every number in a job is below this.

# Flags of the containers that a file may not set, and why.
_NOT_HERE = {
    "logdir": "bucket and display_name determine it",
    "env_batch_size": "actors: environments sets it",
    "actors_per_replica": "actors: processes sets it",
    "learner_replicas": "learner: replicas sets it",
    "learner_hosts": "the containers find each other",
    "learner_index": "the containers find each other",
    "server_address": "the containers find each other",
    "task": "the learner assigns it",
    "flagfile": "it has its own key, flagfile",
}
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "KEY: VALUE lines",
}
_FORMS = {
    "display_name": (r"[A-Za-z0-9][\w.-]{0,100}", "letters, digits, '_', '.' and '-'"),
    "project": (r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id, such as my-project-1"),
    "region": (r"[a-z]+-[a-z]+[0-9]+", "a region, such as us-central1"),
    "bucket": (r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[\w.=-]+)*/?", "gs://BUCKET or gs://BUCKET/DIRECTORY"),
    "service_account": (r"[\w.-]+@[\w.-]+", "an e-mail address"),
    "machine": (r"[a-z][a-z0-9]*-[a-z0-9]+(-[a-z0-9]+)*", "a machine type, such as n1-standard-8"),
    "image": (r"[\w.:-]+/[\w./-]+([:@][\w.:-]+)?", "an image, such as us-docker.pkg.dev/P/R/learner:1"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Learner:
    """The machine of each learner. `accelerator` is Vertex AI's name, NVIDIA_…; None trains on the CPU."""

    machine: str
    replicas: int = 1
    accelerator: str | None = None
    accelerators: int = 1
    image: str | None = None


@dataclasses.dataclass(frozen=True)
class Actors:
    """The actors' machines: `replicas` of them, each with `processes` of `environments` each."""

    machine: str
    replicas: int
    processes: int = 1
    environments: int = 1
    image: str | None = None

    @property
    def num_envs(self) -> int:
        """Environments of all actors together."""
        return self.replicas * self.processes * self.environments


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A hyperparameter tuning job: a space file of `seed_rl sweep`, searched at random by Vertex AI."""

    space: str
    trials: int
    parallel: int = 1


@dataclasses.dataclass(frozen=True)
class JobConfig:
    """A job, or, with `each`, one for every combination of its values.

    Attributes:
      path: the file's path; paths in the file are relative to its directory.
      display_name: the name of the job and of its run directory.
      project: the project's id.
      learner: worker pool 0 and, if it has several replicas, worker pool 1.
      actors: the next worker pool.
      region: the region that the job runs in.
      bucket: the location of run directories; by default gs://PROJECT-seed-rl.
      repository: the repository of the images; by default REGION-docker.pkg.dev/PROJECT/seed-rl.
      service_account: the account that the containers run as; by default Vertex AI's own.
      labels: the job's labels.
      spot: whether to use spot machines, which are cheaper and may be taken back.
      restart: what restarts when Vertex AI restarts a replica: only the replica, or the whole job. With
        never, an internal error of Vertex AI ends the job, and a learner that crashes is not restarted.
      timeout_hours: the time limit of the job.
      flagfile: a file with flags of seed_rl; None: no file.
      flags: flags of seed_rl, including the environment and the agent; they override the flagfile.
      each: a list of values for each flag; every value gets its own job.
      sweep: makes this a hyperparameter tuning job.
      prices: US dollars per hour by machine type or accelerator; they override prices.yaml.
    """

    path: Path
    display_name: str
    project: str
    learner: Learner
    actors: Actors
    region: str = "us-central1"
    bucket: str | None = None
    repository: str | None = None
    service_account: str | None = None
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    spot: bool = False
    restart: str = "replica"
    timeout_hours: float = 24.0
    flagfile: str | None = None
    flags: dict[str, Value] = dataclasses.field(default_factory=dict)
    each: dict[str, list[Value]] = dataclasses.field(default_factory=dict)
    sweep: Sweep | None = None
    prices: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def parent(self) -> str:
        """The resource that the service creates the job under."""
        return f"projects/{self.project}/locations/{self.region}"

    @property
    def directory(self) -> str:
        """The directory of all run directories, without a trailing slash."""
        return (self.bucket or f"gs://{self.project}-seed-rl").rstrip("/")

    @property
    def images(self) -> tuple[str, str]:
        """The learner's and the actors' images."""
        repository = (
            self.repository or f"{self.region}-docker.pkg.dev/{self.project.replace(':', '/')}/seed-rl"
        )
        return (
            self.learner.image or f"{repository}/learner:latest",
            self.actors.image or f"{repository}/actor:latest",
        )

    def beside(self, name: str) -> Path:
        """A path that is given in this file, relative to the file's directory."""
        return self.path.parent / os.path.expanduser(name)


def read_config(path: Path, overrides: Mapping[str, str]) -> JobConfig:
    """Reads and checks a job's file; `gcp.jobs` checks its flags of seed_rl.

    Top-level keys in `overrides` come from the command line, and override the file's.

    Raises:
      ValueError: one sentence that names the file, the key and what is wrong with it.
    """
    content = read_mapping("config", path)
    config = _read(JobConfig, {**content, **overrides}, f"{path}: ", path=path)
    _check(config)
    return config


def _read(config_class: Any, content: Any, where: str, **fixed: Any) -> Any:
    """Makes an object of a dataclass from a mapping whose keys are its fields."""
    if not isinstance(content, dict):
        raise ValueError(f"{where.rstrip(': ')} must be a mapping, KEY: VALUE.")
    fields = {f.name: f for f in dataclasses.fields(config_class) if f.name not in fixed}
    for key in content:
        if key not in fields:
            near = nearest(str(key), fields) or list(fields)
            raise ValueError(f"{where}the key {key!r} is unknown; did you mean {' or '.join(near)}?")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and content.get(name) is None:
            hint = " or give --project" if name == "project" else ""
            raise ValueError(f"{where}there is no {name}; add a line {name}: …{hint}.")
    hints = typing.get_type_hints(config_class)
    values = {k: _convert(hints[k], v, f"{where}{k}") for k, v in content.items() if v is not None}
    return config_class(**values, **fixed)


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Converts a YAML value to the type of a field."""
    if isinstance(hint, types.UnionType) and types.NoneType in typing.get_args(hint):
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    if dataclasses.is_dataclass(hint):
        return _read(hint, value, f"{where}: ")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _convert(arguments[1], item, f"{where}: {key}") for key, item in value.items()}
    if origin is list and isinstance(value, list) and value:
        return [_convert(arguments[0], item, where) for item in value]
    if hint == Value and isinstance(value, bool | int | float | str):
        return value
    if hint is float and type(value) in (int, float):
        return float(value)
    if type(value) is hint:
        return value
    default = "a list in brackets" if origin is list else "a number, text, true or false"
    kind = _KINDS.get(origin or hint, default)
    raise ValueError(f"{where} must be {kind}, not {reprlib.repr(value)}.")


def _check(config: JobConfig) -> None:
    """Checks what types cannot express: forms of names, limits of numbers, flags that have their own keys."""
    path = config.path
    sections = {"": config, "learner: ": config.learner, "actors: ": config.actors, "sweep: ": config.sweep}
    for prefix, section in sections.items():
        for name, value in vars(section).items() if section is not None else ():
            form, what = _FORMS.get(name, ("", ""))
            if form and value is not None and not re.fullmatch(form, value, re.ASCII):
                raise ValueError(f"{path}: {prefix}{name} must be {what}, not {value!r}.")
            if type(value) in (int, float) and not 0 < value < _MOST:
                raise ValueError(
                    f"{path}: {prefix}{name} must be above 0 and below {_MOST:g}, not {value:g}."
                )
    if config.restart not in RESTARTS:
        raise ValueError(f"{path}: restart must be one of {', '.join(RESTARTS)}, not {config.restart!r}.")
    for key, value in config.labels.items():
        if not (re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) and re.fullmatch(r"[a-z0-9_-]{0,63}", value)):
            raise ValueError(
                f"{path}: labels: {key}: {value} must be lower-case letters, digits, '_' and '-'."
            )
    for key, flags in (("flags", config.flags), ("each", config.each)):
        for name in set(flags) & set(_NOT_HERE):
            raise ValueError(f"{path}: take {name} out of {key}: {_NOT_HERE[name]}.")
    twice = sorted(set(config.flags) & set(config.each))
    if twice:
        raise ValueError(f"{path}: {twice[0]} is in flags and in each; take it out of one of them.")
