"""Whether jobs fit into a project's quota for training, compared before anything is submitted.

Vertex AI refuses a job that needs more than the whole quota (RESOURCE_EXHAUSTED), and queues one for which
too little of it is free. Its client cannot ask for a project's quota, so flags of gcp.submit give it, and
without them the documented defaults count.
"""

import re
from typing import NamedTuple

from gcp.config import JobConfig
from seed_rl.flags.errors import UsageError

# What us-central1 has by default (https://docs.cloud.google.com/vertex-ai/quotas). Other regions have 20, 450
# or 2,200 CPUs; the defaults for other accelerators and for spot machines are not known here.
DEFAULT_VCPUS = 2200
DEFAULT_A100 = 8
_A100 = "NVIDIA_TESLA_A100"
_A100_REGION = "us-central1"


class Limit(NamedTuple):
    """What one run (a job, or a trial of a search) needs of something that has a quota, and the quota.

    Attributes:
      what: has the quota.
      flag: of gcp.submit that gives the quota.
      needed: by one run.
      quota: of the project; None if it is not known.
      is_default: whether it is Google's default, because the flag is not set.
    """

    what: str
    flag: str
    needed: int
    quota: int | None
    is_default: bool

    def exceeded_by(self, runs: int) -> bool:
        """Whether so many runs at the same time need more than there is."""
        return self.quota is not None and runs * self.needed > self.quota

    def __str__(self) -> str:
        return f"{self.quota:,}" + (" by default" if self.is_default else "")


def check_quota(config: JobConfig, jobs: int, vcpus: int | None, accelerators: int | None) -> str | None:
    """Compares what jobs need with the quota of their project.

    Args:
      config: of the jobs.
      jobs: how many there are.
      vcpus: quota for vCPUs of N1 and E2 machines in the job's region; None: the default.
      accelerators: quota for the learner's kind of accelerator there; None: the default.

    Returns:
      A sentence if each run fits, and all of them together do not; None if everything fits.

    Raises:
      UsageError: a single run needs more, so that Vertex AI would refuse it.
    """
    limits = _limits(config, vcpus, accelerators)
    for limit in limits:
        if limit.exceeded_by(1):
            raise UsageError(
                f"{config.path}: a run needs {limit.needed:,} {limit.what}, and the quota is {limit}: use "
                f"fewer, or ask Google for more and add --{limit.flag}=N with what the project has then."
            )
    runs = jobs * (min(config.sweep.parallel, config.sweep.trials) if config.sweep else 1)
    missing = [limit for limit in limits if limit.exceeded_by(runs)]
    if not missing:
        return None
    needs = " and ".join(f"{runs * limit.needed:,} {limit.what} (quota: {limit})" for limit in missing)
    flags = " and ".join(f"--{limit.flag}" for limit in missing)
    return (
        f"All runs together need {needs}; Vertex AI queues what does not fit. {flags} can say another quota."
    )


def _limits(config: JobConfig, vcpus: int | None, accelerators: int | None) -> list[Limit]:
    learner, actors = config.learner, config.actors
    needed = _vcpus(learner.machine) + actors.replicas * _vcpus(actors.machine)
    default = None if config.spot else DEFAULT_VCPUS
    limits = [_limit("vCPUs of N1 and E2 machines", "quota_vcpus", needed, vcpus, default)]
    if learner.accelerator:
        has_default = learner.accelerator == _A100 and config.region == _A100_REGION and not config.spot
        default = DEFAULT_A100 if has_default else None
        limits.append(
            _limit(learner.accelerator, "quota_accelerators", learner.accelerators, accelerators, default)
        )
    return limits


def _limit(what: str, flag: str, needed: int, given: int | None, default: int | None) -> Limit:
    return Limit(what, flag, needed, default if given is None else given, given is None)


def _vcpus(machine: str) -> int:
    """How many vCPUs of a machine count for the quota of N1 and E2; other families have their own quotas."""
    match = re.fullmatch(r"(?:n1|e2)-[a-z]+-(\d+)", machine)
    return int(match.group(1)) if match else 0
