"""Export of a real run's policy by the command."""

import shutil

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from seed_rl.environments.suites.catch import SUITE

pytestmark = pytest.mark.slow
EPISODES = 30


@pytest.fixture
def run(finished_run, house):
    return shutil.copytree(finished_run.house.logdir, house.logdir)


def export(house, *args):
    process = house.start("export", str(house.logdir), *args)
    return process.end(), process.output


def returns(path):
    """Returns of the ONNX model alone in episodes of Catch."""
    session = onnxruntime.InferenceSession(str(path))
    states = [x for x in session.get_inputs() if x.name.startswith("state_")]
    env = SUITE.make(SUITE.config_class(), 1)
    for _ in range(EPISODES):
        answer = {x.name: np.zeros([1, *x.shape[1:]], np.float32) for x in states} | {"action": np.int32([0])}
        observation, reward, ended, first, total = env.reset()[0], 0.0, False, True, 0.0
        while not ended:
            inputs = {x.name: answer[x.name] for x in states} | {"prev_action": answer["action"]}
            inputs |= {"reward": np.float32([reward]), "done": np.array([first])}
            inputs |= {"truncated": np.array([False]), "observation": observation[np.newaxis]}
            found = zip([x.name for x in session.get_outputs()], session.run(None, inputs), strict=True)
            answer = {name.removeprefix("next_"): x for name, x in found}
            observation, reward, ended, _, _ = env.step(int(answer["action"][0]))
            first, total = False, total + float(reward)
        yield total


def test_an_onnx_model_plays_catch(house, run):
    code, output = export(house, "--format=onnx")
    assert code == 0, output
    assert "to within" in output.splitlines()[-1]
    assert np.mean(list(returns(run / "policy.onnx"))) >= 0.6
    code, output = export(house, "--format=onnx")
    assert code == 2 and "policy.onnx already exists; add --overwrite" in output


def test_a_saved_model_of_the_best_checkpoint(house, run):
    directory = house.path / "exports" / "best"
    code, output = export(house, "--checkpoint=best", f"--output={directory}")
    assert code == 0, output
    assert tf.saved_model.load(str(directory)).initial_state(tf.constant(3)) is not None
    code, output = export(house)
    assert code == 2 and "saved_model already exists; add --overwrite" in output
    assert export(house, "--overwrite")[0] == 0
    assert (run / "saved_model" / "saved_model.pb").is_file()
