"""The record of a run: the check that a directory is of the same run, its settings, and their history."""

import copy
import json

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.environments import registry as environments
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.runs import record


def identity(environment="catch", agent="vtrace", rows=10, **settings):
    return record.run_identity(environment, CatchConfig(rows=rows), agent, VTraceConfig.of(**settings))


def settings_of(seed=1, discounting=0.99, **changed):
    learner, agent = LearnerConfig(seed=seed, **changed), VTraceConfig.of(discounting=discounting)
    return {"learner": learner.to_dict(), "agent": agent.to_dict()}


@pytest.fixture
def logdir(tmp_path):
    """The directory of a run, with something in it."""
    path = tmp_path / "runs" / "first"
    record.write(str(path), identity(), settings_of(num_envs=4))
    (path / "metrics.jsonl").write_text("precious")
    return path


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def edited(path, change):
    """Changes the content of a run.json by a function; returns it."""
    content = json.loads((path / "run.json").read_text())
    change(content)
    (path / "run.json").write_text(json.dumps(content))
    return content


def refused(logdir, mine):
    before = contents(logdir)
    with pytest.raises(ValueError) as caught:
        record.check(str(logdir), mine)
    assert contents(logdir) == before
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()
    return str(caught.value)


def test_new_and_empty_directories_and_the_same_run_are_fine(tmp_path, logdir):
    for path in (tmp_path / "new", tmp_path, logdir):
        before = contents(path)
        for mine in (identity(), identity(discounting=0.5, unroll_length=7)):  # These shape no network.
            record.check(str(path), mine)
        assert contents(path) == before
    assert not (tmp_path / "new").exists()


def made_of_defaults(logdir, environment="catch", agent="vtrace"):
    """Writes the record of a run whose settings are all at their defaults; returns its content."""
    configs = environments.suite(environment).config_class(), algorithms.config_class(agent)()
    settings = {"learner": LearnerConfig().to_dict(), "agent": configs[1].to_dict()}
    record.write(str(logdir), record.run_identity(environment, configs[0], agent, configs[1]), settings)
    return json.loads((logdir / "run.json").read_text())


@pytest.mark.parametrize(
    ("environment", "agent"),
    [(name, "vtrace") for name in environments.names()] + [("catch", name) for name in algorithms.names()],
)
def test_every_setting_that_a_record_lacks_is_at_its_default(tmp_path, environment, agent):
    """Or at what it was before the option existed."""
    content = made_of_defaults(tmp_path, environment, agent)
    suite = environments.suite(environment).config_class
    content["identity"]["environment"]["settings"] |= suite.before
    older = copy.deepcopy(content)
    older["settings"] = {"agent": {}, "learner": {}}
    older["identity"]["environment"]["settings"], older["identity"]["agent"]["network"] = {}, {}
    (tmp_path / "run.json").write_text(json.dumps(older))
    run = record.read(str(tmp_path))
    assert run.environment_config() == suite(**suite.before)
    assert run.agent_config() == algorithms.config_class(agent)()
    assert run.agent_settings == content["settings"]["agent"]
    assert run.learner_settings == content["settings"]["learner"]
    assert run.identity == content["identity"]
    assert set(run.identity["agent"]["network"]) >= set(NetworkConfig().to_dict())
    record.check(str(tmp_path), content["identity"])
    name, value = next(iter(content["identity"]["agent"]["network"].items()))
    content["identity"]["agent"]["network"][name] = "another value"
    words = f"(agent network {name}: {value} there, another value now)"
    assert words in refused(tmp_path, content["identity"])


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (identity(environment="atari"), "environment name: catch there, atari now"),
        (identity(rows=9), "environment settings rows: 10 there, 9 now"),
        (identity(agent="r2d2"), "agent name: vtrace there, r2d2 now"),
        (identity(lstm_size=0), "agent network lstm_size: 256 there, 0 now"),
        (identity(mlp_sizes="8"), "agent network mlp_sizes: 64,64 there, 8 now"),
    ],
)
def test_another_run_is_refused_with_the_difference(logdir, mine, words):
    sentence = refused(logdir, mine)
    assert f"--logdir={logdir} belongs to another run ({words}); use another --logdir" in sentence


def put(path, what):
    """Puts a file, a directory or a link to one elsewhere into the place of a path."""
    elsewhere = path.parents[1] / "elsewhere"
    for directory in (path.parent, elsewhere):
        directory.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere) if what == "link" else path.touch() if what == "file" else path.mkdir()


LINK = "is a symbolic link, and files would be deleted where it leads; put"
FOLDERS = ("checkpoints", "checkpoints/best")


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("run.json", lambda path: path.unlink(), "holds a run without run.json; use another"),
        ("run.json", lambda path: put(path, "directory"), "run.json cannot be read"),
        ("run.json", lambda path: path.write_text('{"identity": {}}'), "run.json cannot be read"),
        *((name, lambda path: put(path, "link"), LINK) for name in FOLDERS),
        *((name, lambda path: put(path, "file"), "is not a directory; move it away") for name in FOLDERS),
    ],
)
def test_a_directory_that_is_no_run_of_ours_is_refused(logdir, name, damage, words):
    damage(logdir / name)
    assert words in refused(logdir, identity())


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31mred", "tab\t", "\udcff", "\x7f", "\u202eright"])
def test_a_name_that_cannot_be_printed_is_refused(tmp_path, name):
    assert "characters that cannot be printed; choose another" in refused(tmp_path / name, identity())


def test_what_is_no_directory_of_a_run_is_one_sentence(tmp_path):
    path, long = tmp_path / "file", str(tmp_path / ("x" * 300))
    path.write_text("precious")
    no_record = f"{tmp_path} contains no run.json, so it is not a run directory"
    for call, words in [
        (lambda: record.check(str(path), identity()), f"--logdir={path} is a file; name a directory"),
        (lambda: record.write(str(path), identity(), settings_of()), f"--logdir={path} cannot be written"),
        (lambda: record.check(long, identity()), r"cannot be used \(File name too long\); use another"),
        (lambda: record.read(long), r"cannot be read \(File name too long\); name another"),
        (lambda: record.read(str(tmp_path)), no_record),
        (lambda: record.read(str(tmp_path / "no")), "is not a directory; name the --logdir of a run"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    assert path.read_text() == "precious"


def test_a_record_is_read_back_into_configurations(tmp_path):
    agent = VTraceConfig.of(discounting=0.5, lstm_size=3)
    settings = {"learner": {"num_envs": 8}, "agent": agent.to_dict()}
    record.write(str(tmp_path), identity(rows=7, lstm_size=3), settings)
    run = record.read(str(tmp_path))
    assert (run.environment_config(), run.agent_config()) == (CatchConfig(rows=7), agent)
    assert (run.environment, run.game, run.agent) == ("catch", None, "vtrace")
    assert run.learner_settings == LearnerConfig(num_envs=8).to_dict()
    assert run.identity == identity(rows=7, lstm_size=3)
    content = edited(tmp_path, lambda content: content["settings"]["agent"].update(old=1, older=2))
    assert {"seed_rl", "python", "tensorflow"} <= set(content["versions"])
    with pytest.raises(ValueError, match="its settings old, older are unknown to this one"):
        record.read(str(tmp_path)).agent_config()


@pytest.mark.parametrize(("value", "is_known"), [(False, True), (True, False)])
def test_a_run_with_a_removed_option_goes_on_only_if_that_had_its_default(tmp_path, value, is_known):
    new = copy.deepcopy(made_of_defaults(tmp_path, agent="dqn")["settings"])
    removed = {"munchausen": value, "munchausen_alpha": 0.9}
    content = edited(tmp_path, lambda content: content["settings"]["agent"].update(removed))
    assert record.changes(tmp_path, new) == {}
    if is_known:
        record.check(str(tmp_path), content["identity"])
        assert record.read(str(tmp_path)).agent_settings == new["agent"]
    else:
        words = "its settings munchausen are unknown to this one; use that version."
        assert words in refused(tmp_path, content["identity"])


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, {}),
        ({"learning_rate": 0.001}, {"learning_rate": [0.00048, 0.001]}),
        (
            {"optimizer": "rmsprop", "discounting": 0.9},
            {"discounting": [0.99, 0.9], "optimizer": ["adam", "rmsprop"]},
        ),
        ({"total_environment_frames": 5, "stop_at_return": 1.0}, {}),  # These only end training.
        ({"num_envs": 9, "log_period_secs": 1.0}, {}),  # Plumbing.
        ({"seed": 2}, {}),  # `flags.resolve` refuses another one.
    ],
)
def test_settings_that_change_results_are_named_and_kept_as_a_history(tmp_path, capsys, changed, found):
    logdir = str(tmp_path)
    record.write(logdir, identity(), settings_of())
    assert record.changes(logdir, settings_of(**changed)) == found
    record.write(logdir, identity(), settings_of(**changed))
    assert "history" not in json.loads((tmp_path / "run.json").read_text())  # There was no checkpoint.
    record.write(logdir, identity(), settings_of())
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "ckpt-7.index").touch()
    record.write(logdir, identity(), settings_of(**changed))
    record.write(logdir, identity(), settings_of(**changed))
    history = json.loads((tmp_path / "run.json").read_text()).get("history", [])
    assert [(entry["checkpoint"], entry["changed"]) for entry in history] == [("ckpt-7", found)] * bool(found)
    assert capsys.readouterr().err.count("other settings") == bool(found)


def test_of_a_function_the_file_counts_and_not_its_place(tmp_path):
    mine = [
        record.run_identity("gym", GymConfig(game=f"pickle:{tmp_path}/{name}"), "vtrace", VTraceConfig())
        for name in ("environment_1.pickle", "environment_2.pickle")
    ]
    (tmp_path / "environment_1.pickle").touch()
    record.write(str(tmp_path), mine[0], settings_of())
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert record.read(str(moved)).game == "pickle:environment_1.pickle"
    assert record.read(str(moved)).environment_config().game == f"pickle:{moved}/environment_1.pickle"
    assert "its environments are of another function" in refused(moved, mine[1])
