"""Turns a job's configuration into requests to Vertex AI; nothing is sent here."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from datetime import timedelta

from google.cloud.aiplatform_v1.types import (
    AcceleratorType,
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    GcsDestination,
    HyperparameterTuningJob,
    MachineSpec,
    Scheduling,
    StudySpec,
    WorkerPoolSpec,
)

from gcp.config import JobConfig
from seed_rl.environments.base import nearest
from seed_rl.flags.command_line import CommandLine
from seed_rl.flags.errors import UsageError
from seed_rl.launch import vertex_job
from seed_rl.launch.credentials import make_credentials
from seed_rl.launch.plan import check_split
from seed_rl.learner.config import LearnerConfig
from seed_rl.sweeps.space import Distribution, Space, Value, as_flags, as_text, read_space

_COMMAND = ["python", "-m", *vertex_job.PROGRAM]

# Accelerators that Google no longer offers, although its client still lists them.
_ENDED = {"NVIDIA_TESLA_K80": "May 2024", "NVIDIA_TESLA_P100": "September 2026"}


@dataclasses.dataclass(frozen=True)
class Job:
    """One request.

    Attributes:
      name: the display name, and the name of the run directory.
      logdir: the run directory, gs://….
      request: the request that creates the job.
    """

    name: str
    logdir: str
    request: CustomJob | HyperparameterTuningJob


def make_jobs(config: JobConfig) -> list[Job]:
    """Makes the requests for a configuration, in the order of its `each`.

    Raises:
      UsageError: a flag or a space that seed_rl would refuse, actors that do not match --num_envs, an unknown
        accelerator, or two jobs with the same name.
      ValueError: the space file cannot be read.
    """
    space = read_space(config.beside(config.sweep.space)) if config.sweep else None
    combinations = itertools.product(*config.each.values())
    jobs = [_make_job(config, space, dict(zip(config.each, one, strict=True))) for one in combinations]
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise UsageError(f"{config.path}: two jobs have the same name; change the values in each.")
    return jobs


def _make_job(config: JobConfig, space: Space | None, values: dict[str, Value]) -> Job:
    name = "_".join([config.display_name, *(re.sub(r"[^\w.-]+", "-", str(v)) for v in values.values())])
    logdir = f"{config.directory}/{name}"
    flags = _flags(config, space, values, logdir)
    line = _parse(config, flags)
    if space is not None:
        _check_space(config, space, line, flags)
    spec = _job_spec(config, vertex_job.job_arguments(line), logdir)
    if config.sweep is None or space is None:
        return Job(name, logdir, CustomJob(display_name=name, job_spec=spec, labels=config.labels))
    study = StudySpec(
        metrics=[{"metric_id": vertex_job.METRIC, "goal": StudySpec.MetricSpec.GoalType.MAXIMIZE}],
        parameters=[_parameter(name, distribution) for name, distribution in space.parameters.items()],
        algorithm=StudySpec.Algorithm.RANDOM_SEARCH,
    )
    request = HyperparameterTuningJob(
        display_name=name,
        study_spec=study,
        max_trial_count=config.sweep.trials,
        parallel_trial_count=min(config.sweep.parallel, config.sweep.trials),
        trial_job_spec=spec,
        labels=config.labels,
    )
    return Job(name, logdir, request)


def _flags(config: JobConfig, space: Space | None, values: dict[str, Value], logdir: str) -> list[str]:
    """All flags of a job; if one is repeated, its last value counts."""
    flags = [f"--flagfile={config.beside(config.flagfile)}"] if config.flagfile else []
    flags += ["--require_accelerator"] if config.learner.accelerator else []
    if space is not None:
        flags += [f"--flagfile={space.flagfile}"] if space.flagfile else []
        flags += [f"--environment={space.environment}", f"--agent={space.agent}", *as_flags(space.flags)]
    never: dict[str, Value] = {"learner_restarts": 0} if config.restart == "never" else {}
    chosen = {**never, **config.flags, **values}
    computed = {"env_batch_size": config.actors.environments, "actors_per_replica": config.actors.processes}
    if config.learner.replicas > 1:
        computed["learner_replicas"] = config.learner.replicas
    return [*flags, *as_flags(chosen), *as_flags(computed), f"--logdir={logdir}"]


def _parse(config: JobConfig, flags: Sequence[str]) -> CommandLine:
    """Parses flags as the containers will; --num_envs follows from the actors unless a flag sets it."""
    actors = config.actors
    try:
        line = vertex_job.parse_job(["gcp.submit", f"--num_envs={actors.num_envs}", *flags])
        learner = line.read(LearnerConfig)
        wanted = learner.num_envs
        if wanted != actors.num_envs:
            amount = "many" if actors.num_envs > wanted else "few"
            raise UsageError(
                f"{actors.replicas} replicas x {actors.processes} processes x {actors.environments} "
                f"environments are {actors.num_envs}, too {amount} for --num_envs={wanted}; change actors or "
                "num_envs."
            )
        num_actors = actors.replicas * actors.processes
        check_split(config.learner.replicas, num_actors, wanted, learner.batch_size)
    except UsageError as error:
        raise UsageError(f"{config.path}: {error}") from None
    return line


def _check_space(config: JobConfig, space: Space, line: CommandLine, flags: Sequence[str]) -> None:
    """Checks that every bound and choice of every parameter is a valid value for its flag."""
    both = sorted(set(space.parameters) & {*config.flags, *config.each})
    if both:
        raise UsageError(
            f"{config.path}: {both[0]} is drawn from {space.path}; take it out of flags and each."
        )
    if (line.environment, line.agent) != (space.environment, space.agent):
        raise UsageError(f"{config.path}: {space.path} names environment and agent; take them out of flags.")
    for name, distribution in space.parameters.items():
        for value in distribution.values:
            _parse(config, [*flags, f"--{name}={as_text(value)}"])


def _parameter(name: str, distribution: Distribution) -> StudySpec.ParameterSpec:
    """The parameter for a flag. Choices are passed as text, so the flag gets exactly what the file says."""
    spec = StudySpec.ParameterSpec
    if distribution.kind == "choice":
        texts = [as_text(value) for value in distribution.values]
        return spec(parameter_id=name, categorical_value_spec=spec.CategoricalValueSpec(values=texts))
    low, high = (float(value) for value in distribution.values)
    if distribution.kind == "int_uniform":
        ends = spec.IntegerValueSpec(min_value=int(low), max_value=int(high))
        return spec(parameter_id=name, integer_value_spec=ends, scale_type=spec.ScaleType.UNIT_LINEAR_SCALE)
    is_log = distribution.kind == "log_uniform"
    scale = spec.ScaleType.UNIT_LOG_SCALE if is_log else spec.ScaleType.UNIT_LINEAR_SCALE
    real = spec.DoubleValueSpec(min_value=low, max_value=high)
    return spec(parameter_id=name, double_value_spec=real, scale_type=scale)


def _job_spec(config: JobConfig, arguments: Sequence[str], logdir: str) -> CustomJobSpec:
    credentials = make_credentials("gcp")
    learner_image, actor_image = config.images

    def pool(image: str, machine: MachineSpec, replicas: int, secrets: dict[str, str]) -> WorkerPoolSpec:
        variables = [EnvVar(name=name, value=value) for name, value in secrets.items()]
        container = ContainerSpec(image_uri=image, command=_COMMAND, args=arguments, env=variables)
        return WorkerPoolSpec(machine_spec=machine, replica_count=replicas, container_spec=container)

    def learners(replicas: int) -> WorkerPoolSpec:
        return pool(learner_image, _learner_machine(config), replicas, credentials.learner)

    others, actor_machine = config.learner.replicas - 1, MachineSpec(machine_type=config.actors.machine)
    return CustomJobSpec(
        worker_pool_specs=[
            learners(1),
            *([learners(others)] if others else []),
            pool(actor_image, actor_machine, config.actors.replicas, credentials.actor),
        ],
        scheduling=Scheduling(
            timeout=timedelta(hours=config.timeout_hours),
            strategy=Scheduling.Strategy.SPOT if config.spot else Scheduling.Strategy.STANDARD,
            restart_job_on_worker_restart=config.restart == "job",
            disable_retries=config.restart == "never",
        ),
        service_account=config.service_account or "",
        base_output_directory=GcsDestination(output_uri_prefix=logdir),
    )


def _learner_machine(config: JobConfig) -> MachineSpec:
    learner = config.learner
    if learner.accelerator is None:
        return MachineSpec(machine_type=learner.machine)
    known = [kind for kind in AcceleratorType.__members__ if kind.startswith("NVIDIA_")]
    if learner.accelerator in _ENDED:
        raise UsageError(
            f"{config.path}: learner: Google Cloud has not offered {learner.accelerator} since "
            f"{_ENDED[learner.accelerator]}; choose another, such as NVIDIA_TESLA_T4 or NVIDIA_L4."
        )
    if learner.accelerator not in known:
        offered = [kind for kind in known if kind not in _ENDED]
        near = nearest(learner.accelerator, offered) or offered
        raise UsageError(
            f"{config.path}: learner: accelerator {learner.accelerator!r} is unknown; choose one of: "
            f"{', '.join(near)}."
        )
    return MachineSpec(
        machine_type=learner.machine,
        accelerator_type=AcceleratorType.__members__[learner.accelerator],
        accelerator_count=learner.accelerators,
    )
