import contextlib
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.vtrace import VTrace
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.training.checkpoint import (
    WRITE_ERRORS,
    Checkpointer,
    best_checkpoint,
    newest_checkpoint,
    read_best,
    restore_algorithm,
)
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Sample
from tests.selection import mostly_slow
from tests.training.slopes import Pair, sample

# An image that goes through a CNN and a vector that goes through an MLP: every kind of layer, lists included.
SPEC = EnvironmentSpec(
    {"image": ArraySpec((24, 24, 1), "uint8"), "vector": ArraySpec((3,), "float32")},
    ArraySpec((), "int32", (0,), (3,)),
)
B, T = 2, 2


class PairRun:
    """Algorithm of two objectives, its trainer and its checkpointer, of one process."""

    def __init__(self, logdir):
        self._set_up(logdir, Pair(), 0.1)

    def _set_up(self, logdir, algorithm, learning_rate, keep=3):
        self.algorithm = algorithm
        self.trainer = Trainer(algorithm, TrainerConfig(learning_rate=learning_rate))
        self.checkpointer = Checkpointer(str(logdir), algorithm, self.trainer, keep, 1.0)

    def of_algorithm(self):
        return self.algorithm.variables

    def values(self):
        """Every variable there is, by what holds it; found without the checkpoint's own tracking."""
        found = {f"algorithm {i}": v.numpy() for i, v in enumerate(self.of_algorithm())}
        for name, optimizer in self.trainer.optimizers.items():
            found |= {f"optimizer of {name} {i}": v.numpy() for i, v in enumerate(optimizer.variables)}
        found |= {v.name: v.numpy() for v in self.checkpointer.progress.variables}
        return found | {"iteration": self.trainer.iteration.numpy()}


class Run(PairRun):
    """The same of V-trace with a large network."""

    def __init__(self, logdir, seed=0, keep=3, **settings):
        tf.keras.utils.set_random_seed(seed)
        config = VTraceConfig.of(
            **{"unroll_length": T, "torso": "resnet", "mlp_sizes": "6,5", "lstm_size": 7, **settings}
        )
        self._set_up(logdir, VTrace(config, SPEC, B), 0.01, keep)

    def of_algorithm(self):
        return self.algorithm.objectives[LOSS].variables

    def train(self, seed=0):
        rng = np.random.default_rng(seed)
        steps = T + 1

        def random(*shape):
            return tf.constant(rng.normal(size=shape), tf.float32)

        observation = {
            "image": tf.constant(rng.integers(0, 255, (steps, B, 24, 24, 1)), tf.uint8),
            "vector": random(steps, B, 3),
        }
        false = tf.zeros([steps, B], tf.bool)
        actions = tf.constant(rng.integers(0, 4, (steps, B)), tf.int32)
        info = {"policy_parameters": random(steps, B, 4), "baseline": random(steps, B)}
        env = EnvOutput(random(steps, B), false, false, observation)
        state = self.algorithm.policy.initial_state(B)
        self.trainer.update(Sample(actions, env, AgentOutput(actions, info), state, tf.ones([B])), 0.0)


def small_run(logdir, **settings):
    """A run for tests in which the network does not matter."""
    return Run(logdir, torso="shallow", **settings)


def assert_same_values(got, want):
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with a checkpoint of three updates; tests only read it."""
    logdir = tmp_path_factory.mktemp("trained")
    run = Run(logdir)
    for seed in range(3):
        run.train(seed)
    progress = run.checkpointer.progress
    for number, variable in enumerate(progress.variables):
        variable.assign(tf.cast(1234 + number, variable.dtype))
    run.path = run.checkpointer.save()
    run.logdir = logdir
    return run


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_every_variable_comes_back(trained):
    fresh = Run(trained.logdir, seed=99)
    kernels = [name for name, value in trained.values().items() if "algorithm" in name and value.ndim > 1]
    before, want = fresh.values(), trained.values()
    assert all((before[name] != want[name]).any() for name in kernels)
    assert fresh.checkpointer.restore() == trained.path
    assert_same_values(fresh.values(), want)
    assert fresh.trainer.updates == 3


def test_a_restored_run_has_the_same_variables_as_a_new_one(trained, tmp_path):
    """Else a learner host that has restored them could not give them to the others."""
    new, restored = Run(tmp_path), Run(trained.logdir)
    restored.checkpointer.restore()
    new, restored = ([(v.dtype, v.shape) for v in run.checkpointer.variables] for run in (new, restored))
    assert len(new) > 10 and restored == new


@pytest.mark.parametrize("settings", [{"lstm_size": 8}, {"lstm_size": 0}, {"mlp_sizes": "6"}])
def test_other_network_is_refused_and_no_file_touched(trained, settings):
    refusal = "ckpt-3 belongs to another network or optimizer; use the flags"
    before = contents(trained.logdir)
    with pytest.raises(ValueError, match=refusal) as caught:
        Run(trained.logdir, **settings).checkpointer.restore()
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=refusal):
        restore_algorithm(Run(trained.logdir, **settings).algorithm, trained.path)
    assert contents(trained.logdir) == before


@pytest.mark.parametrize(
    "what", mostly_slow(["run directory", "directory of checkpoints", "path prefix"], ["run directory"])
)
def test_initialize_takes_the_network_only(trained, tmp_path, what):
    names = {
        "run directory": str(trained.logdir),
        "directory of checkpoints": os.path.dirname(trained.path),
        "path prefix": trained.path,
    }
    fresh = Run(tmp_path, seed=7)
    fresh.checkpointer.initialize_from(names[what])
    got, want = fresh.values(), trained.values()
    for name, value in want.items():
        if name.startswith("algorithm"):
            np.testing.assert_array_equal(got[name], value, err_msg=name)
    progress = restore_algorithm(Run(tmp_path, seed=99).algorithm, trained.path)
    assert progress.env_frames.numpy() == trained.checkpointer.progress.env_frames.numpy()
    assert fresh.trainer.updates == got["iteration"] == 0
    assert all(v.numpy() == 0 for v in fresh.checkpointer.progress.variables)
    assert got[f"optimizer of {LOSS} 0"] == 0  # Its own count of updates.


@pytest.mark.parametrize("name", ["missing", "."])
def test_initialize_from_nothing_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"--init_checkpoint=.* holds no checkpoint; name one"):
        small_run(tmp_path).checkpointer.initialize_from(str(tmp_path / name))


def save(run, updates):
    """A checkpoint as after so many updates."""
    run.trainer.iteration.assign(updates)
    run.trainer.updates = updates
    run.checkpointer.save()


def damage(path, how):
    """Damages a checkpoint as a crash or a full disk would."""
    data = Path(f"{path}.data-00000-of-00001")
    content, middle = data.read_bytes(), data.stat().st_size // 2
    if how == "no data":
        data.unlink()
    elif how == "half of the data":
        data.write_bytes(content[:middle])
    elif how == "a wrong byte":
        data.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    else:
        os.truncate(f"{path}.index", 10)


HARMS = ["no data", "half of the data", "a wrong byte", "half of the index"]


@pytest.mark.parametrize("how", mostly_slow(HARMS, ["a wrong byte"]))
def test_a_checkpoint_that_is_not_whole_is_passed_over(tmp_path, how):
    run, directory = small_run(tmp_path), tmp_path / "checkpoints"
    for updates in (1, 2):
        save(run, updates)
    damage(directory / "ckpt-2", how)
    fresh = small_run(tmp_path, seed=4)
    assert fresh.checkpointer.restore() == newest_checkpoint(tmp_path) == str(directory / "ckpt-1")
    assert fresh.checkpointer.skipped == [str(directory / "ckpt-2")]
    assert fresh.trainer.updates == 1
    assert (directory / "ckpt-2.index.damaged").exists()  # Nothing is lost, and it is no checkpoint any more.
    damage(directory / "ckpt-1", "no data")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"None of the 1 checkpoints in .* can be read; move them away"):
        fresh.checkpointer.restore()
    assert contents(tmp_path) == before


@contextlib.contextmanager
def files_of_at_most(size):
    """Limits the size of files, as on a full disk: a write beyond it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", mostly_slow([0, 100, 20_000], [100]))
def test_a_checkpoint_that_cannot_be_written_is_not_the_last(tmp_path, size):
    run = small_run(tmp_path)
    save(run, 1)
    assert run.checkpointer.save_if_best(1.0)
    before = contents(tmp_path)
    with files_of_at_most(size):
        with pytest.raises(WRITE_ERRORS):
            save(run, 2)
        with pytest.raises(WRITE_ERRORS):
            run.checkpointer.save_if_best(2.0)
    assert contents(tmp_path) == before
    fresh = small_run(tmp_path, seed=4)
    assert fresh.checkpointer.restore().endswith("ckpt-1")
    assert fresh.checkpointer.skipped == []
    save(run, 2)
    assert run.checkpointer.save_if_best(2.0)
    assert newest_checkpoint(tmp_path).endswith("ckpt-2")
    assert best_checkpoint(tmp_path).endswith("ckpt-2")


def test_the_best_checkpoint_is_kept_besides_the_last(tmp_path):
    run = small_run(tmp_path, keep=1)
    assert best_checkpoint(tmp_path) is None
    kept = []
    for updates, mean_return in enumerate((1.0, 3.0, 2.0, 3.0), start=1):
        save(run, updates)
        kept.append(run.checkpointer.save_if_best(mean_return))
    assert kept == [True, True, False, False]
    assert best_checkpoint(tmp_path) == str(tmp_path / "checkpoints" / "best" / "ckpt-2")
    assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoints" / "ckpt-4")
    assert [path.name for path in (tmp_path / "checkpoints").glob("*.index")] == ["ckpt-4.index"]
    assert read_best(tmp_path)["mean_return"] == 3.0
    resumed = small_run(tmp_path)
    resumed.checkpointer.restore()
    assert not resumed.checkpointer.save_if_best(2.5)
    assert resumed.checkpointer.save_if_best(3.5)
    names = os.listdir(tmp_path / "checkpoints" / "best")
    assert sorted(name for name in names if name.endswith(".index")) == ["ckpt-4.index"]


def test_the_best_checkpoint_is_the_one_that_its_record_names(tmp_path):
    """Not the one with the most updates: a run may have gone back to an earlier checkpoint."""
    run = small_run(tmp_path)
    best = tmp_path / "checkpoints" / "best"
    save(run, 900)
    assert run.checkpointer.save_if_best(5.0)
    of_900 = {path: content for path, content in contents(best).items() if path.name != "best.json"}
    save(run, 700)
    assert run.checkpointer.save_if_best(6.0)
    assert sorted(path.name for path in best.glob("*.index")) == ["ckpt-700.index"]
    for path, content in of_900.items():  # As if the process had been killed before it removed them.
        path.write_bytes(content)
    assert best_checkpoint(tmp_path) == str(best / "ckpt-700")
    damage(best / "ckpt-700", "a wrong byte")
    with pytest.raises(ValueError, match=r"ckpt-700 is missing or damaged; use the last one"):
        best_checkpoint(tmp_path)


@pytest.mark.parametrize("record", ['{"mean_return": NaN}', '{"mean_return": Infinity}', "[]", "{}", '{"mea'])
def test_a_best_that_was_not_finite_is_replaced(tmp_path, record):
    run = small_run(tmp_path)
    save(run, 1)
    assert run.checkpointer.save_if_best(9.0)
    (tmp_path / "checkpoints" / "best" / "best.json").write_text(record)
    assert best_checkpoint(tmp_path) is None
    save(run, 2)
    assert run.checkpointer.save_if_best(1.0)
    assert not run.checkpointer.save_if_best(1.0)
    assert best_checkpoint(tmp_path).endswith("ckpt-2")
    assert read_best(tmp_path)["mean_return"] == 1.0


def object_graph(path):
    """A checkpoint's graph: the names of the edges from the root, and from what is called `agent` there."""
    raw = tf.train.load_checkpoint(path).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(raw).nodes
    root = {child.local_name: nodes[child.node_id] for child in nodes[0].children}
    return set(root), {child.local_name for child in root["agent"].children}


@pytest.mark.slow
def test_files_have_the_names_of_earlier_versions(tmp_path):
    """Objects are found by the names of the edges that lead to them, so these may never change."""
    run = Run(tmp_path, normalize_rewards=True, normalize_observations=True, target_entropy=0.5)
    run.train()  # Uses the policy, which must not become part of the graph.
    path = run.checkpointer.save()
    of_root, of_agent = object_graph(path)
    assert of_root == {"agent", "optimizer", "iteration", "progress", "save_counter"}
    assert of_agent == {"_network", "_entropy_cost", "_reward_scale"}
    names = {name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE") for name, _ in tf.train.list_variables(path)}
    statistics = {"agent/_reward_scale/_statistics/mean", "agent/_network/trunk/_encoder/torso_1/_scale/mean"}
    assert statistics | {"agent/_entropy_cost/_parameter", "iteration", "progress/env_frames"} <= names
    assert "optimizer/_iterations" in names


def test_two_objectives_come_back_with_their_optimizers(tmp_path):
    run = PairRun(tmp_path)
    for slope in (2.0, -1.0):
        run.trainer.update(sample(slope), 0.25)
    path = run.checkpointer.save()
    of_root, _ = object_graph(path)
    optimizers = {"optimizer_actor", "optimizer_critic"}
    assert of_root == {"agent", "iteration", "progress", "save_counter"} | optimizers
    resumed = PairRun(tmp_path)
    before, want = resumed.values(), run.values()
    changed = {name.rpartition(" ")[0] for name in want if (before[name] != want[name]).any()}
    assert {"algorithm", "optimizer of actor", "optimizer of critic"} <= changed
    assert resumed.checkpointer.restore() == path
    assert_same_values(resumed.values(), want)
    assert resumed.trainer.updates == 2
    for each in (run, resumed):
        each.trainer.update(sample(3.0), 0.5)
    assert_same_values(resumed.values(), run.values())

    alone = Pair()  # As in evaluation, where nothing has built its optimizer.
    restore_algorithm(alone, path)
    np.testing.assert_array_equal(alone.critic, want["algorithm 1"])


def test_a_checkpoint_of_one_objective_does_not_fit_two(trained, tmp_path):
    run = PairRun(tmp_path)
    with pytest.raises(ValueError, match="belongs to another network"):
        run.checkpointer.initialize_from(trained.path)
    np.testing.assert_array_equal(run.algorithm.actor, [2.0, 1.0])
