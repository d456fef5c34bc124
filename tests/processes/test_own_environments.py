"""An environment that a user brings, with arguments and figures of its own, in real processes."""

import json

import pytest

pytestmark = pytest.mark.slow

GAME = ("--environment=gym", "--game=tests.environments.hallway:Hallway-v0")
SIZE = """--env_kwargs={"size": 5}"""


@pytest.mark.parametrize("transport", ["grpc", "shared_memory"])
def test_arguments_and_figures_go_all_the_way(house, transport):
    learner = house.learner(*GAME, SIZE, "--num_envs=4", "--total_environment_frames=3000")
    actor = house.actor(GAME[0], GAME[1], f"--transport={transport}")  # The learner sends it the arguments.
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output
    last = house.metrics()[-1]
    assert last["episode/size"] == 5
    assert last["episode/is_success"] == pytest.approx(last["mean_return"])
    assert "episode/other" not in last
    assert learner.output.count("'unused' is not a finite number") == 1
    assert ", is_success " in learner.output

    settings = json.loads((house.logdir / "run.json").read_text())["identity"]["environment"]["settings"]
    assert settings["env_kwargs"] == '{"size": 5}'
    evaluation = house.start("evaluate", house.logdir, "--episodes=6", f"--output={house.path}/result.json")
    assert evaluation.end() == 0, evaluation.output
    result = json.loads((house.path / "result.json").read_text())
    assert result["episode/size"] == 5
    assert result["episode/is_success"] == pytest.approx(result["mean_return"])

    other = house.learner(*GAME, "--num_envs=4", "--total_environment_frames=3000")
    assert other.end() == 2 and "env_kwargs" in other.last_line


def test_a_run_that_reaches_its_return_is_complete_and_stays_so(house):
    flags = (*GAME, "--num_envs=4", "--total_environment_frames=1000000", "--stop_at_return=0.5")
    frames = 0
    for num_actors in (1, 0):  # The second learner needs none.
        learner = house.learner(*flags)
        actors = [house.actor(*GAME) for _ in range(num_actors)]
        assert learner.end() == 0, learner.output
        assert [actor.end() for actor in actors] == [0] * num_actors
        last = house.metrics()[-1]
        assert last["mean_return"] >= 0.5 and last["episodes"] >= 100
        assert "--stop_at_return is reached: " in learner.last_line
        assert json.loads((house.logdir / "run.json").read_text())["ended"] == "return"
        assert frames in (0, last["env_frames"])
        frames = last["env_frames"]
    assert (house.logdir / "saved_model").is_dir()


def test_an_argument_that_the_constructor_does_not_take_ends_the_start(house):
    learner = house.learner(*GAME, """--env_kwargs={"length": 5}""")
    assert learner.end() == 2
    assert "does not take the argument 'length'" in learner.last_line
    assert "Traceback" not in learner.output


def test_videos_are_recorded_while_training_goes_on(house):
    flags = ("--record_every_minutes=0.03", "--save_checkpoint_secs=5", "--total_environment_frames=1e9")
    few = ("1", "1", "--intra_op_threads=1")  # Part of a processor is left for the recording.
    run = house.start("train", "catch", "vtrace", *few, *flags, f"--logdir={house.logdir}")
    videos = house.logdir / "videos"
    house.wait_until(lambda: videos.is_dir() and list(videos.glob("*.mp4")), lambda: run.output)
    run.signal(2)
    assert run.end() == 130
    assert "no more videos" not in run.output
