"""The spaces in configs/sweeps: every run that they make is one that the launcher accepts as it is meant."""

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.sweeps.space import read_space
from seed_rl.sweeps.trials import Sweep, draw

DIRECTORY = configs_directory() / "sweeps"


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_run_has_the_values_that_are_drawn_and_the_flags_of_its_space(path, tmp_path):
    space = read_space(path)
    sweep = Sweep(space, tmp_path / "new", 8, 1)
    assert sweep.flagfiles == [space.flagfile]
    for trial in range(1, 9):
        values = draw(space, 1, trial)
        run = sweep.run(trial, 1, values)
        # As the launcher reads the command.
        line = resolve_run(run.command[3:])
        assert (line.environment, line.agent, line.preset) == (space.environment, space.agent, None)
        agent, environment = line.agent_config(), line.environment_config()
        learner = line.read(LearnerConfig, num_envs=1, logdir="", server_address="")
        assert learner.total_environment_frames == run.total_frames
        everything = {**agent.to_dict(), **learner.to_dict(), **environment.to_dict()}
        drawn = values | space.flags
        assert {name: everything[name] for name in drawn} == drawn


def test_a_suite_that_does_not_exist_is_named(tmp_path):
    space = read_space(DIRECTORY / "football.yaml")
    with pytest.raises(UsageError, match=r"--environment=socker is not valid; choose one of: "):
        Sweep(space, tmp_path / "new", 1, 1, ["--environment=socker"])
