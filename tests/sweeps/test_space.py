import pytest

from seed_rl.sweeps.space import Distribution, read_space


def test_a_file_is_read_with_numbers_that_yaml_takes_for_text(space):
    assert (space.environment, space.agent) == ("catch", "vtrace")
    assert space.flagfile == space.path.parents[1] / "one.flags"
    flags = {"total_environment_frames": 1e5, "optimizer": "adam", "normalize_observations": True}
    assert space.flags == flags | {"mlp_sizes": "8,8"}
    assert list(space.parameters) == ["adam_epsilon", "clip_norm", "learning_rate", "torso", "unroll_length"]
    assert space.parameters["learning_rate"] == Distribution("log_uniform", (1e-5, 1e-2))
    assert space.parameters["adam_epsilon"] == Distribution("choice", (1e-7, 0.001, 1))
    assert space.parameters["unroll_length"] == Distribution("int_uniform", (3, 10))


HEAD = "environment: catch\nagent: vtrace\n"
ONE = HEAD + "space:\n  learning_rate: "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n- b\n", "is not a YAML mapping"),
        ("agent: vtrace\nspace: {a: {choice: [1]}}", "names no environment; add a line environment: NAME"),
        ("environment: catch\nspace: {a: {choice: [1]}}", "names no agent"),
        (HEAD, "has no space"),
        (HEAD + "spaces: {}", "the key 'spaces' is unknown; choose among: environment, agent, flagfile"),
        (HEAD + "flagfile: [a, b]\nspace: {a: {choice: [1]}}", "flagfile must be one path"),
        (HEAD + "space: [learning_rate]", "space must be a mapping whose keys are names of flags"),
        (HEAD + "space: {no: {choice: [1]}}", "space must be a mapping whose keys are names of flags"),
        (HEAD + "space: {--learning_rate: {choice: [1]}}", "write it without dashes"),
        (HEAD + "space: {seed: {choice: [1]}}", "the sweep itself sets --seed"),
        (HEAD + "flags: {logdir: a}\nspace: {a: {choice: [1]}}", "the sweep itself sets --logdir"),
        (HEAD + "flags: {agent: a}\nspace: {a: {choice: [1]}}", "write it at the top level"),
        (HEAD + "flags: {a: [1]}\nspace: {b: {choice: [1]}}", "--a: [1] is not a valid flag value"),
        (HEAD + "flags: {a: 1}\nspace: {a: {choice: [1]}}", "--a is in flags and in space"),
        (HEAD + "trials: 0\nspace: {a: {choice: [1]}}", "trials must be a whole number above 0, not 0"),
        (HEAD + "seeds: yes\nspace: {a: {choice: [1]}}", "seeds must be a whole number above 0, not True"),
        (ONE + "0.1", "--learning_rate needs one distribution"),
        (ONE + "{uniform: [0, 1], choice: [1]}", "--learning_rate needs one distribution"),
        (ONE + "{normal: [0, 1]}", "the kind 'normal' is unknown; choose one of: choice, uniform, "),
        (ONE + "{uniform: 3}", "uniform needs a list in brackets"),
        (ONE + "{choice: []}", "choice needs at least one value"),
        (ONE + "{choice: [null]}", "None is not a valid flag value"),
        (ONE + "{uniform: [1]}", "uniform needs two numbers, [LOW, HIGH]"),
        (ONE + "{uniform: [0, .inf]}", "uniform needs two numbers"),
        (ONE + "{uniform: [false, true]}", "uniform needs two numbers"),
        (ONE + "{uniform: [2, 1]}", "the lowest value, 2, must be less than the highest, 1"),
        (ONE + "{int_uniform: [1, 1]}", "the lowest value, 1, must be less than the highest, 1"),
        (ONE + "{int_uniform: [1, 2.5]}", "int_uniform needs whole numbers"),
        (ONE + "{log_uniform: [0, 1]}", "log_uniform needs a lowest value above 0, not 0"),
        (ONE + "{uniform: [-1e308, 1e308]}", "the range from -1e+308 to 1e+308 is too large"),
        (ONE + "{int_uniform: [0, 1e300]}", "the range from 0 to 1e+300 is too large"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        read_space(path)
    sentence = str(caught.value)
    assert words in sentence and str(path) in sentence
    assert "\n" not in sentence
