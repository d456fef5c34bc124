import pytest

from seed_rl.cluster.cluster_config import ClusterConfig
from seed_rl.commands import cluster


@pytest.mark.parametrize(
    ("ports", "expected"),
    [("20000-20002", [20000, 20001, 20002]), ("8686", [8686]), ("65535-65535", [65535])],
)
def test_a_range_of_ports(ports, expected):
    assert list(ClusterConfig(learner_ports=ports).ports) == expected


@pytest.mark.parametrize("ports", ["", "0-5", "9-8", "60000-65536", "-5", "5-", "1,2", "http", "123456"])
def test_what_is_no_range_of_ports_is_refused(ports):
    with pytest.raises(ValueError, match=r"^--learner_ports=.* is not valid; give FIRST-LAST"):
        ClusterConfig(learner_ports=ports)


def test_the_default_ports_are_neither_rays_nor_the_systems():
    ports = ClusterConfig().ports
    assert ports[0] > 19999  # Ray's workers (docs.ray.io, "Configuring Ray", "Ports configurations").
    assert ports[-1] < 30000  # Kubernetes' node ports; Linux hands out ports from 32768 on.


@pytest.mark.parametrize(
    ("flags", "demands"),
    [((), False), (("--learner_gpus=1",), True), (("--learner_gpus=1", "--norequire_accelerator"), False)],
)
def test_gpus_that_are_asked_for_are_demanded_unless_a_flag_says_otherwise(flags, demands):
    settings = cluster.resolved(["cluster", "catch", "vtrace", *flags])
    assert settings.values["require_accelerator"] == demands
