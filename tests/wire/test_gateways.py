import pytest

from seed_rl.wire.gateways import as_leased, gateway_addresses, private_address, resolved


@pytest.mark.parametrize(
    ("server", "gateways"),
    [
        ("unix:/tmp/s", ("unix:/tmp/s.gateway0", "unix:/tmp/s.gateway1")),
        ("0.0.0.0:8686", ("0.0.0.0:8687", "0.0.0.0:8688")),
        ("learner.example:80", ("learner.example:81", "learner.example:82")),
        ("[::1]:8686", ("[::1]:8687", "[::1]:8688")),
        ("dns:///learner:8686", ("dns:///learner:8687", "dns:///learner:8688")),
        ("localhost:65533", ("localhost:65534", "localhost:65535")),
    ],
)
def test_gateways_follow_the_learner(server, gateways):
    assert gateway_addresses(server, 2) == gateways


def test_without_gateways_there_are_no_addresses_at_any_address():
    assert gateway_addresses("unix:/tmp/s", 0) == ()


@pytest.mark.parametrize(
    "server", ["localhost:0", "localhost:65534", "localhost", "localhost:", "unix-abstract:x"]
)
def test_an_address_without_ports_after_it_is_one_sentence(server):
    with pytest.raises(ValueError, match=f"={server}; give a port from 1 to 65533") as caught:
        gateway_addresses(server, 2)
    assert str(caught.value).startswith("--num_gateways=2 needs as many ports after")


@pytest.mark.parametrize(
    ("server", "asked", "reached"),
    [
        ("0.0.0.0:8686", "learner.example:8686", "learner.example:8687"),
        ("[::]:8686", "[fe80::1]:8686", "[fe80::1]:8687"),
        ("0.0.0.0:8686", "dns:///learner:8686", "dns:///learner:8687"),
        ("0.0.0.0:8686", "ipv4:10.0.0.2:8686", "ipv4:10.0.0.2:8687"),
        # An actor that asks a gateway, here the second one, for its task.
        ("0.0.0.0:8686", "learner.example:8688", "learner.example:8687"),
        ("unix:/tmp/s", "unix:/tmp/s", "unix:/tmp/s.gateway0"),
        ("unix:/tmp/s", "unix:/tmp/s.gateway1", "unix:/tmp/s.gateway0"),
    ],
)
def test_an_actor_reaches_a_leased_gateway_on_the_host_that_it_asked(server, asked, reached):
    assert resolved(as_leased(gateway_addresses(server, 2)[0]), asked) == reached


@pytest.mark.parametrize("leased", ["10.0.0.3:8687", "[fe80::1]:8687", "unix:/tmp/s", "dns:///other:1", ""])
def test_a_lease_that_names_a_host_is_taken_at_its_word(leased):
    assert resolved(leased, "learner.example:8686") == leased


def test_the_learners_own_address_for_gateways_is_private():
    assert private_address("unix:/tmp/s") == "unix:/tmp/s.learner"
    first, second = private_address("0.0.0.0:8686"), private_address("0.0.0.0:8686")
    assert first.startswith("unix-abstract:") and first != second
