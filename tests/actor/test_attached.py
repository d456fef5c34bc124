"""Programs that keep their own loop, attached to a learner."""

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import seed_rl
from seed_rl.environments.spaces_json import dump_spaces
from seed_rl.environments.specs import Spaces
from seed_rl.environments.suites.external import ExternalConfig
from seed_rl.wire.protocol import EnvironmentDescription
from tests.actor.counting import DESCRIPTION, LENGTH, SPEC, Counting
from tests.threads import Thread

SPACES = dump_spaces(Spaces(Counting.observation_space, Counting.action_space))
EXTERNAL = EnvironmentDescription("external", ExternalConfig(spaces=SPACES).to_dict(), SPEC, SPACES)
DEADLINE_SECS = 60.0


@pytest.fixture
def start(start):
    """Starts learners of external environments at the test's address."""
    return lambda num_envs=1, description=EXTERNAL: start(num_envs, description=description)


def attach(address, **options):
    return seed_rl.connect(address, connect_timeout_secs=DEADLINE_SECS, **options)


def test_a_plain_loop_gets_an_action_for_each_step_and_is_left_when_training_ends(start, address):
    learner, env, num_steps, ended = start(), Counting(), 0, False
    buffer = np.zeros(1, np.int32)  # Programs reuse their arrays.
    with attach(address) as program:
        while True:
            buffer[:] = env.reset()[0]
            action = program.reset(buffer)
            while action is not None:
                buffer[:], *results, _ = env.step(action)
                action = program.step(buffer, *results)
                num_steps += 1
            if num_steps == 4 * LENGTH:
                stopping = Thread(learner.stop)
                ended = True
    assert ended and stopping.finished(DEADLINE_SECS)
    assert learner.seen[0][: 4 * LENGTH] == list(range(4 * LENGTH))
    assert learner.episodes[:3] == [(0, 1.0), (0, 2.0), (0, 3.0)]
    done = [(step, reward) for _, step, reward, done, _ in learner.records if done]
    assert done[:3] == [(0, 0.0), (LENGTH, 1.0), (2 * LENGTH, 2.0)]


def test_an_episode_that_is_cut_short_shows_its_last_observation(start, address):
    learner = start()
    with attach(address) as program:
        assert program.reset([0]) == 1
        assert program.step([1], 0.5, False, False) == 2
        assert program.step([2], 0.25, False, True) is None
        assert program.reset([7]) == 8
        assert program.step([8], 0.0, False, False) == 9
    assert learner.records == [
        (0, 0, 0.0, True, False),
        (0, 1, 0.5, False, False),
        (0, 2, 0.25, False, True),
        (0, 7, 0.0, True, False),
        (0, 8, 0.0, False, False),
    ]
    assert learner.episodes == [(0, 0.75)]


def test_a_reset_in_the_middle_of_an_episode_cuts_it_off_and_reports_nothing(start, address):
    learner = start()
    with attach(address) as program:
        program.reset([0])
        program.step([1], 0.5, False, False)
        assert program.reset([20]) == 21
        assert program.step([21], 3.0, True, False) is None
        assert program.reset([30]) == 31
    flags = [(step, reward, done, truncated) for _, step, reward, done, truncated in learner.records]
    assert flags[2:] == [(1, 0.0, False, True), (20, 0.0, True, False), (30, 3.0, True, False)]
    assert learner.episodes == [(0, 3.0)]


def test_several_environments_step_together_as_those_of_gymnasium_do(start, address):
    learner, envs = start(3), SyncVectorEnv([Counting] * 3)
    with attach(address, num_envs=3) as program:
        actions = program.reset(envs.reset()[0])
        for _ in range(2 * LENGTH + 1):
            # Counting refuses an action that does not belong to its last step.
            observations, *results, _ = envs.step(actions)
            actions = program.step(observations, *results)
            assert actions.shape == (3,)
        with pytest.raises(ValueError, match=r"reset\(\) was called before"):
            program.reset(observations)
    assert (
        learner.episodes
        == [(env, value) for value in (1.0, 2.0) for env in range(3)][: len(learner.episodes)]
    )
    assert len(learner.episodes) >= 3


def test_episodes_go_on_with_the_next_learner(start, address):
    first = start()
    with attach(address) as program:
        action = program.reset([0])
        for step in range(1, 4):
            assert action == step
            action = program.step([step], 0.0, False, False)
        first.stop("The learner was stopped.")
        second = start()
        for step in range(4, 8):
            assert action == step
            action = program.step([step], 0.0, False, False)
    assert second.seen[0][-3:] == [5, 6, 7]


@pytest.mark.parametrize(
    "words, hand_over",
    {
        "shape": (r"int64\[2\]", lambda program: program.reset([1, 2])),
        "range": ("out of|outside|bounds|-1", lambda program: program.reset([-1])),
        "kind": ("refused", lambda program: program.reset("left")),
        "reward": (
            "reward",
            lambda program: (program.reset([0]), program.step([1], "much", False, False), program.reset([0])),
        ),
        "nan": ("nan", lambda program: (program.reset([0]), program.step([1], np.nan, False, False))),
    }.values(),
)
def test_what_the_spaces_do_not_allow_is_refused_where_it_was_handed_over(start, address, words, hand_over):
    start()
    with attach(address) as program, pytest.raises(ValueError, match=words):
        hand_over(program)


def test_a_program_cannot_attach_to_environments_whose_spaces_have_no_text(start, address):
    start(description=DESCRIPTION)
    with attach(address) as program, pytest.raises(ValueError, match="spaces of counting"):
        program.reset([0])


def test_no_learner_is_an_error_after_the_time_limit(address):
    with seed_rl.connect(address, connect_timeout_secs=0.3) as program:
        with pytest.raises(ConnectionError, match="No learner"):
            program.reset([0])


def test_a_step_needs_an_episode(address):
    with attach(address) as program, pytest.raises(RuntimeError, match=r"call reset\(\)"):
        program.step([0], 0.0, False, False)


@pytest.mark.parametrize("name", ["colour", "num_env_groups", "env_batch_size", "pin", "server_address"])
def test_an_argument_that_there_is_not_is_refused(address, name):
    with pytest.raises(ValueError, match=f"no argument '{name}'; there are connect_timeout_secs"):
        seed_rl.connect(address, **{name: 2})
