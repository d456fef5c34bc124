"""Checks whether jobs fit into a project's quota for training, before anything is submitted.

Vertex AI refuses a job that needs more than the whole quota (RESOURCE_EXHAUSTED), and queues one if too
little of it is free. Its client cannot query a project's quota, so flags of gcp.submit set it; without them,
the documented defaults apply.
"""

import re
from typing import NamedTuple

from gcp.config import JobConfig
from seed_rl.flags.errors import UsageError

# The defaults of us-central1 (https://docs.cloud.google.com/vertex-ai/quotas). Other regions have 20, 450
# or 2,200 CPUs; the defaults for other accelerators and for spot machines are unknown.
DEFAULT_VCPUS = 2200
DEFAULT_A100 = 8
_A100 = "NVIDIA_TESLA_A100"
_A100_REGION = "us-central1"


class _Limit(NamedTuple):
    """How much of a resource one run (a job, or a trial of a search) needs, and the quota for it.

    The flag of gcp.submit sets the quota that is `given`; None: it is not set. `default` is Google's, None if
    it is unknown.
    """

    what: str
    flag: str
    needed: int
    given: int | None
    default: int | None

    def is_exceeded_by(self, runs: int) -> bool:
        """Whether this number of concurrent runs needs more than the quota."""
        quota = self.default if self.given is None else self.given
        return quota is not None and runs * self.needed > quota

    def __str__(self) -> str:
        return f"{self.default:,} by default" if self.given is None else f"{self.given:,}"


def check_quota(config: JobConfig, jobs: int, vcpus: int | None, accelerators: int | None) -> str | None:
    """Compares what jobs need with the quota of their project for vCPUs (N1, E2) and accelerators.

    If a quota is None, Google's default is assumed. Returns a sentence if each run fits but all of them
    together do not; None if everything fits.

    Raises:
      UsageError: a single run needs more than the quota, so Vertex AI would refuse it.
    """
    limits = _limits(config, vcpus, accelerators)
    for limit in limits:
        if limit.is_exceeded_by(1):
            raise UsageError(
                f"{config.path}: a run needs {limit.needed:,} {limit.what}, and the quota is {limit}: use "
                f"fewer, or request more from Google and pass the new quota as --{limit.flag}=N."
            )
    runs = jobs * (min(config.sweep.parallel, config.sweep.trials) if config.sweep else 1)
    missing = [limit for limit in limits if limit.is_exceeded_by(runs)]
    if not missing:
        return None
    needs = " and ".join(f"{runs * limit.needed:,} {limit.what} (quota: {limit})" for limit in missing)
    flags = " and ".join(f"--{limit.flag}" for limit in missing)
    return (
        f"All runs together need {needs}; Vertex AI queues what does not fit. If the project has another "
        f"quota, set it with {flags}."
    )


def _limits(config: JobConfig, vcpus: int | None, accelerators: int | None) -> list[_Limit]:
    learner, actors = config.learner, config.actors
    needed = learner.replicas * _vcpus(learner.machine) + actors.replicas * _vcpus(actors.machine)
    default = None if config.spot else DEFAULT_VCPUS
    limits = [_Limit("vCPUs of N1 and E2 machines", "quota_vcpus", needed, vcpus, default)]
    if learner.accelerator:
        has_default = learner.accelerator == _A100 and config.region == _A100_REGION and not config.spot
        default = DEFAULT_A100 if has_default else None
        needed = learner.replicas * learner.accelerators
        limits.append(_Limit(learner.accelerator, "quota_accelerators", needed, accelerators, default))
    return limits


def _vcpus(machine: str) -> int:
    """The vCPUs of a machine that count toward the quota of N1 and E2; other families have their own."""
    match = re.fullmatch(r"(?:n1|e2)-[a-z]+-(\d+)", machine)
    return int(match.group(1)) if match else 0
