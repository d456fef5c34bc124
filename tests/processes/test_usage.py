"""What the user can put right ends each main with exit code 2 and one sentence that names what is valid."""

import pytest

LEARNER = ("learner_main", "--environment=catch", "--agent=vtrace")
ACTOR = ("actor_main", "--environment=catch")
LOCAL = ("local_main", "catch", "vtrace")

CASES = [
    (("learner_main", "--environment=catsh", "--agent=vtrace"), ["--environment=catsh", "atari, catch, gym"]),
    (("actor_main", "--environment=catsh"), ["--environment=catsh", "atari, catch, gym"]),
    (("local_main", "catsh", "vtrace"), ["--environment=catsh", "atari, catch, gym"]),
    (("learner_main", "--environment=catch", "--agent=vtrase"), ["--agent=vtrase", "vtrace"]),
    (("local_main", "catch", "vtrase"), ["--agent=vtrase", "vtrace"]),
    ((*LEARNER, "--torso=deep"), ["--torso=deep", "auto, mlp, shallow, nature, resnet"]),
    ((*LEARNER, "--batch_size=many"), ["--batch_size=many", "a whole number"]),
    ((*ACTOR, "--env_batch_size=0"), ["--env_batch_size=0", "at least 1"]),
    ((*ACTOR, "--env_batch_size=3", "--num_env_groups=2"), ["--num_env_groups=2", "multiple"]),
    ((*LOCAL, "--num_actors=0"), ["--num_actors=0", "at least 1"]),
    ((*LEARNER, "--batch_sise=4"), ["--batch_sise", "--batch_size"]),
    ((*ACTOR, "--tusk=4"), ["--tusk", "--task"]),
    ((*LOCAL, "--num_actor=4"), ["--num_actor", "--num_actors"]),
    # Flags of environments and agents that were not chosen are not defined.
    ((*ACTOR, "--full_action_set"), ["Unknown flag --full_action_set", "environment catch"]),
]


@pytest.mark.parametrize(("command", "words"), CASES, ids=lambda value: "_".join(value)[:60])
def test_bad_use_is_one_sentence_and_exit_code_2(house, command, words):
    process = house.start(*command)
    assert process.end() == 2
    lines = process.output.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("seed_rl: error: ")
    for word in words:
        assert word in lines[0]
    assert list(house.path.glob("run*")) == []
