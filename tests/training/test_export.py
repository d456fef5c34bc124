"""The exported policy, loaded in a process that cannot import this package."""

import json
import os
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from seed_rl.algorithms.vtrace import VTrace
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.training.export import export_policy
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

SPEC = EnvironmentSpec(ArraySpec((4,), "float32"), ArraySpec((), "int32", (0,), (2,)))

LOADER = """
import collections, json, sys

class Refuse:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "seed_rl":
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import tensorflow as tf

policy = tf.saved_model.load(sys.argv[1])
EnvOutput = collections.namedtuple("EnvOutput", "reward done truncated observation")
B = 64
state = policy.initial_state(tf.constant(B))
env = EnvOutput(tf.zeros([B]), tf.ones([B], tf.bool), tf.zeros([B], tf.bool), tf.ones([B, 4]))
output, state = policy.act(tf.zeros([B], tf.int32), env, state, tf.range(B))
again, state = policy.act(output.action, env, state, tf.range(B))
found = {
    "action": output.action.numpy().tolist(),
    "parameters": output.info["policy_parameters"][0].numpy().tolist(),
    "state": [x.shape.as_list() for x in tf.nest.flatten(state)],
    "imported": any(name.split(".")[0] == "seed_rl" for name in sys.modules),
}
print(json.dumps(found))
"""


def make_policy(seed):
    keras.utils.set_random_seed(seed)
    return VTrace(VTraceConfig.of(mlp_sizes="6,5", lstm_size=7), SPEC, 1).policy


def parameters(policy):
    """Of a policy, exported or not, for the observation that LOADER uses."""
    env = EnvOutput(tf.zeros([1]), tf.ones([1], tf.bool), tf.zeros([1], tf.bool), tf.ones([1, 4]))
    output, _ = policy.act(tf.zeros([1], tf.int32), env, policy.initial_state(tf.constant(1)), tf.range(1))
    return output.info["policy_parameters"][0].numpy().tolist()


@pytest.mark.slow
def test_loads_without_this_package_and_a_second_export_replaces_the_first(tmp_path):
    directory = tmp_path / "saved_model"
    first, second = make_policy(1), make_policy(2)
    export_policy(first, SPEC, str(directory))
    export_policy(second, SPEC, str(directory))
    assert os.listdir(tmp_path) == ["saved_model"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", LOADER, str(directory)]
    done = subprocess.run(command, env=env, cwd=tmp_path, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["imported"]
    assert found["parameters"] == pytest.approx(parameters(second), abs=1e-5)
    assert found["parameters"] != pytest.approx(parameters(first), abs=1e-3)
    assert found["state"] == [[64, 7], [64, 7]]
    # Sampled, as Policy.act does: 64 equal observations get different actions.
    assert len(found["action"]) == 64
    assert {0, 1, 2} >= set(found["action"]) != {found["action"][0]}


def test_directories_that_cannot_be_renamed_are_copied(tmp_path, monkeypatch):
    """As in a bucket that is mounted as a directory."""

    def refuse(source, target, **_):
        raise OSError(f"{source} is a directory")

    monkeypatch.setattr(os, "rename", refuse)
    directory = tmp_path / "saved_model"
    for seed in (1, 2):
        export_policy(make_policy(seed), SPEC, str(directory))
    assert os.listdir(tmp_path) == ["saved_model"]
    loaded = tf.saved_model.load(str(directory))
    assert parameters(loaded) == pytest.approx(parameters(make_policy(2)), abs=1e-5)


def test_an_export_that_was_interrupted_loses_nothing(tmp_path, monkeypatch):
    path, policy = tmp_path / "saved_model", make_policy(1)
    export_policy(policy, SPEC, str(path))
    path.rename(tmp_path / "saved_model.old")  # A process was killed before it renamed the new one.
    (tmp_path / "saved_model.tmp").mkdir()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorflow.saved_model.save", fail)
    with pytest.raises(OSError, match="No space"):
        export_policy(make_policy(2), SPEC, str(path))
    monkeypatch.undo()
    assert parameters(tf.saved_model.load(str(path))) == parameters(policy)
    export_policy(make_policy(2), SPEC, str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["saved_model"]


def test_nothing_is_written_where_a_link_leads(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("saved_model.tmp", "saved_model.old", "saved_model"):
        (tmp_path / name).symlink_to(precious, target_is_directory=True)
    export_policy(make_policy(1), SPEC, str(tmp_path / "saved_model"))
    assert os.listdir(precious) == []
    assert (tmp_path / "saved_model" / "saved_model.pb").is_file()
    assert not (tmp_path / "saved_model").is_symlink()
