"""Every value that a paper gives for a setting is that of the presets and searches which it holds for."""

import fnmatch
import functools

import pytest

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.flags.flagfile import configs_directory
from seed_rl.flags.resolve import resolve
from seed_rl.launch.plan import LocalConfig, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.paper import tables
from seed_rl.sweeps.space import read_space

CONFIGS = configs_directory()
PRESETS = [
    path.relative_to(CONFIGS / "paper").with_suffix("").as_posix()
    for path in sorted((CONFIGS / "paper").rglob("*.flags"))
]
SETTINGS = [row for paper in ("seed", "accelerated_methods") for row in tables.read(f"{paper}/settings")]


def presets_of(setting):
    return [name for pattern in setting.presets for name in fnmatch.filter(PRESETS, pattern)]


# Each row of the tables that name presets, with its table and suite.
ROWS = [
    *(("Table 1", row.suite, row) for row in tables.read("seed/table_1")),
    *(
        (f"Table {number}", suite, row)
        for number, suite in ((4, "dmlab"), (5, "football"), (12, "dmlab"))
        for row in tables.read(f"seed/table_{number}")
    ),
]
# The option that tells models apart (sections 4.2.2 and 4.4.1), and its values.
MODELS = {
    "dmlab": ("network_width", {"Default": 1, "Medium": 2, "Large": 4}),
    "football": ("map_size", {"Default": "96x72", "Medium": "120x90", "Large": "144x108"}),
}


def row_settings(suite, row):
    """Options and values of a row's preset; each actor of IMPALA has one environment."""
    yield from {"environment": suite, "training_environments": row.environments}.items()
    yield "inference", "actor" if row.architecture == "IMPALA" else "learner"
    if hasattr(row, "batch_size"):
        yield "batch_size", row.batch_size
    if suite in MODELS:
        option, values = MODELS[suite]
        yield option, values[row.model]
    if row.architecture == "IMPALA":
        yield from {"num_actors": row.environments, "env_batch_size": 1, "num_env_groups": 1}.items()


# Preset, option, the value that it has to have, and where that is from.
EXPECTED = [
    *(
        (preset, row.option, row.value, f"{row.source}: {row.parameter}")
        for row in SETTINGS
        if row.option
        for preset in presets_of(row)
    ),
    *(
        (f"seed/{row.preset}", option, value, source)
        for source, suite, row in ROWS
        if row.preset
        for option, value in row_settings(suite, row)
    ),
]


@functools.cache
def settings_of(path):
    """All settings of a flagfile by option, as a learner, its actors and the launcher read them."""
    args = ["train", f"--flagfile={path}"]
    learner = resolve(args, "", (LearnerConfig,), elsewhere=(ActorConfig, LocalConfig))
    launched = resolve_run(args)
    configs = (
        learner.environment_config(),
        learner.agent_config(),
        learner.read(LearnerConfig),
        launched.read(ActorConfig, server_address=""),
        launched.read(LocalConfig),
    )
    settings = {name: value for config in configs for name, value in config.to_dict().items()}
    settings["training_environments"] = settings["num_envs"] - settings.get("num_eval_envs", 0)
    return settings | {"environment": learner.environment}


def preset_settings(name):
    return settings_of(CONFIGS / "paper" / f"{name}.flags")


def is_as_printed(actual, value):
    text = str(value)
    if isinstance(actual, str | bool):
        return str(actual).lower() == text.lower()
    if text.startswith(">"):
        return actual > float(text[1:])
    return actual == pytest.approx(float(text))


def test_presets_have_the_values_that_the_papers_give():
    wrong = [
        f"{preset}: --{option} is {preset_settings(preset)[option]}, not {value} ({source})."
        for preset, option, value, source in EXPECTED
        if not is_as_printed(preset_settings(preset)[option], value)
    ]
    assert not wrong, "\n" + "\n".join(wrong)
    assert len(EXPECTED) >= 450


def test_every_preset_of_the_two_papers_is_compared():
    ours = [name for name in PRESETS if not name.startswith("others/")]
    assert set(ours) <= {preset for preset, *_ in EXPECTED}
    assert all(presets_of(row) for row in SETTINGS)


def test_every_row_has_a_preset_but_the_baseline_that_is_not_ours():
    """docs/paper.md says why, as tests/paper/test_page.py checks."""
    without = [(table, suite, row.architecture) for table, suite, row in ROWS if not row.preset]
    assert without == [("Table 1", "atari", "R2D2")]


def test_r2d2_without_a_preset_has_the_values_of_its_preset():
    line = resolve(["learner", "atari", "r2d2"], "", (LearnerConfig,))
    configs = (line.environment_config(), line.agent_config(), line.read(LearnerConfig))
    settings = {name: value for config in configs for name, value in config.to_dict().items()}
    scale = {"num_envs", "num_eval_envs", "evaluation_episodes_per_point", "total_environment_frames"}
    preset = preset_settings("seed/atari_r2d2")
    different = {name for name, value in settings.items() if preset[name] != value}
    assert different <= scale | {"logdir", "server_address"}


@pytest.mark.parametrize("name", PRESETS)
def test_the_actors_of_a_preset_have_its_environments(name):
    settings = preset_settings(name)
    assert settings["num_actors"] * settings["env_batch_size"] == settings["num_envs"]
    assert settings["env_batch_size"] % settings["num_env_groups"] == 0
    if name.startswith("seed/"):  # Central inference: one environment steps while the other waits.
        assert settings["num_env_groups"] == (1 if settings["inference"] == "actor" else 2)


@pytest.mark.parametrize(
    ("name", "num_envs", "trials", "seeds"), [("dmlab_stability", 176, 24, None), ("football", 624, 40, 3)]
)
def test_searches_have_the_ranges_of_tables_6_and_7_and_the_trials_of_sections_4_1_and_4_2(
    name, num_envs, trials, seeds
):
    space = read_space(CONFIGS / "sweeps" / f"{name}.yaml")
    preset = settings_of(space.flagfile)
    assert (space.trials, space.seeds, preset["num_envs"]) == (trials, seeds, num_envs)
    expected = {row.option: (row.kind, row.values) for row in tables.read("seed/ranges") if row.sweep == name}
    assert {option: (drawn.kind, drawn.values) for option, drawn in space.parameters.items()} == expected
    for option, (kind, values) in expected.items():
        within = preset[option] in values if kind == "choice" else values[0] <= preset[option] <= values[1]
        assert within, option
