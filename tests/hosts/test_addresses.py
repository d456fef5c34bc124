"""The learner hosts of a run, from flags or TF_CONFIG, and their shares of the environments."""

import json

import pytest

from seed_rl.hosts.addresses import LearnerHosts, find_hosts


def test_there_is_one_host_unless_several_are_named():
    assert find_hosts("", 0, {}) is None
    assert find_hosts("a:1, b:2", 1, {}) == LearnerHosts(("a:1", "b:2"), 1)


@pytest.mark.parametrize(
    ("task", "index"), [({"type": "chief", "index": 0}, 0), ({"type": "worker", "index": 1}, 2)]
)
def test_tf_config_names_the_chief_first(task, index):
    text = json.dumps({"cluster": {"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "task": task})
    assert find_hosts("", 0, {"TF_CONFIG": text}) == LearnerHosts(("a:1", "b:1", "c:1"), index)
    assert find_hosts("d:1,e:1", 0, {"TF_CONFIG": text}) == LearnerHosts(("d:1", "e:1"), 0)


def test_tf_config_without_a_cluster_names_no_host():
    assert find_hosts("", 0, {"TF_CONFIG": "{}"}) is None


@pytest.mark.parametrize(
    ("hosts", "index", "environ", "sentence"),
    [
        ("", 1, {}, "--learner_index=1 needs --learner_hosts, the list of all hosts."),
        ("a:1,b", 0, {}, "--learner_hosts=a:1,b contains 'b', which is no address; give HOST:PORT or unix:"),
        ("a:1,a:1", 0, {}, "--learner_hosts=a:1,a:1 contains a:1 twice; each learner host needs an address "),
        (
            "a:1,b:1",
            2,
            {},
            "--learner_index=2 is not among the 2 hosts of --learner_hosts=a:1,b:1; the first",
        ),
        ("", 0, {"TF_CONFIG": "secret"}, "TF_CONFIG does not describe learner hosts ("),
        ("", 0, {"TF_CONFIG": "[" * 3000}, "TF_CONFIG does not describe learner hosts ("),
        (
            "",
            0,
            {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": Infinity}}'},
            "TF_CONFIG does not describe learner hosts (",
        ),
        (
            "",
            0,
            {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}'},
            "TF_CONFIG does not describe learner hosts (ValueError(\"its task type 'ps' is neither",
        ),
    ],
)
def test_bad_hosts_are_one_sentence(hosts, index, environ, sentence):
    with pytest.raises(ValueError) as caught:
        find_hosts(hosts, index, environ)
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
