"""The learner hosts of a run, from flags or TF_CONFIG, and their shares of the environments."""

import json

import pytest

from seed_rl.hosts.addresses import LearnerHosts, find_hosts


def tf_config(kind, index, **cluster):
    cluster = {name: addresses.split() for name, addresses in cluster.items()}
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


CHIEF, WORKER = (
    tf_config(kind, index, worker="b:1 c:1", chief="a:1") for kind, index in (("chief", 0), ("worker", 1))
)


@pytest.mark.parametrize(
    ("hosts", "index", "text", "expected"),
    [
        ("", 0, None, None),
        ("", 0, "{}", None),
        ("a:1, b:2", 1, None, LearnerHosts(("a:1", "b:2"), 1)),
        ("", 0, CHIEF, LearnerHosts(("a:1", "b:1", "c:1"), 0)),  # The chief is the first.
        ("", 0, WORKER, LearnerHosts(("a:1", "b:1", "c:1"), 2)),
        ("d:1,e:1", 0, WORKER, LearnerHosts(("d:1", "e:1"), 0)),
    ],
)
def test_hosts_are_those_of_the_flag_or_of_tf_config(hosts, index, text, expected):
    assert find_hosts(hosts, index, {"TF_CONFIG": text} if text else {}) == expected


NO_HOSTS = "TF_CONFIG does not describe learner hosts ("


@pytest.mark.parametrize(
    ("hosts", "index", "text", "sentence"),
    [
        ("", 1, "", "--learner_index=1 needs --learner_hosts, the list of all hosts."),
        ("a:1,b", 0, "", "--learner_hosts=a:1,b contains 'b', which is no address; give HOST:PORT or unix:"),
        ("a:1,a:1", 0, "", "--learner_hosts=a:1,a:1 contains a:1 twice; each learner host needs an address "),
        ("a:1,b:1", 2, "", "--learner_index=2 is not among the 2 hosts of --learner_hosts=a:1,b:1; the"),
        ("", 0, "secret", NO_HOSTS),
        ("", 0, "[" * 3000, NO_HOSTS),
        ("", 0, tf_config("worker", float("inf"), worker="a:1"), NO_HOSTS),
        ("", 0, tf_config("ps", 0, worker="a:1"), f"{NO_HOSTS}ValueError(\"its task type 'ps' is neither"),
    ],
)
def test_bad_hosts_are_one_sentence(hosts, index, text, sentence):
    with pytest.raises(ValueError) as caught:
        find_hosts(hosts, index, {"TF_CONFIG": text} if text else {})
    assert str(caught.value).startswith(sentence)
    assert "secret" not in str(caught.value)


def test_each_host_serves_its_share():
    hosts = LearnerHosts(("a:1", "b:1"), 1)
    assert (hosts.served(8), hosts.served(8, 0)) == (range(4, 8), range(4))
    assert (hosts.machine(), LearnerHosts(("unix:/tmp/x",)).machine()) == ("b", "127.0.0.1")


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ((9, 0, 8), "--num_envs=9 cannot be split evenly over 2 learner hosts; make it a multiple of 2."),
        ((8, 0, 7), "--batch_size=7 cannot be split evenly over 2 learner hosts; make it a multiple of 2."),
        ((8, 4, 8), "All 4 environments of learner host 1 (b:1) would only evaluate; raise --num_envs=8 or "),
    ],
)
def test_what_cannot_be_split_is_one_sentence(run, sentence):
    with pytest.raises(ValueError) as caught:
        LearnerHosts(("a:1", "b:1")).check(*run)
    assert str(caught.value).startswith(sentence)
