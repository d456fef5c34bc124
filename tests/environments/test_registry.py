"""The table of suites; settings that they refuse, and packages that they lack, in one sentence each."""

import subprocess
import sys
import types

import pytest

from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.making import suite_spec
from tests.installed import install


def test_unknown_name_lists_the_valid_ones_and_the_nearest():
    with pytest.raises(
        ValueError, match=r"^--environment=Attari .*atari, catch, .*gym, .*recall.*\(nearest: atari\)\.$"
    ):
        registry.suite("Attari")
    with pytest.raises(ValueError, match=r"recall\.$"):
        registry.suite("xyzzy")


def test_suites_import_without_engines_and_without_tensorflow():
    """Flags can be defined anywhere, and actors stay thin."""
    program = """
import sys
import types
for engine in ("ale_py", "cv2", "deepmind_lab", "gfootball", "gym", "minatar", "shimmy"):
    sys.modules[engine] = None
from seed_rl.environments import batched, registry
from seed_rl.actor import group
for name in registry.names():
    registry.suite(name).config_class()
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_installed_package_adds_a_suite(tmp_path, monkeypatch):
    module = types.ModuleType("their_suite")
    module.SUITE = Suite(EnvironmentConfig, lambda config, seed, render_mode=None: None)
    monkeypatch.setitem(sys.modules, "their_suite", module)
    points = {"pong2000": "their_suite:SUITE", "catch": "their_suite:SUITE", "theirs": "their_suite:__name__"}
    install(tmp_path, monkeypatch, "seed_rl.environments", **points)
    assert "pong2000" in registry.names()
    assert registry.suite("pong2000") is module.SUITE
    assert registry.suite("catch") is not module.SUITE  # Ours comes first.
    with pytest.raises(ValueError, match=r"^--environment=theirs .* is not a seed_rl\.environments\.base\.S"):
        registry.suite("theirs")


def refused(suite, sentence, **settings):
    return suite, settings, sentence


LIMITED = "tests.environments.limited:Limited-v0"
COLLECT = "rooms_collect_good_objects"
EMPTY = "academy_empty_goal_clos"
REFUSED = [
    refused("gym", r"is not JSON \(Expecting ',' delimiter", env_kwargs='{"size": 7'),
    refused("gym", "is not JSON", env_kwargs=""),
    refused("gym", "it is nested too deeply", env_kwargs="[" * 5000),
    refused("gym", "is not a JSON object; write it like", env_kwargs="[7]"),
    refused("gym", "is not a JSON object", env_kwargs="7"),
    refused("gym", "not have 'render_mode': seed_rl evaluate", env_kwargs='{"render_mode": "human"}'),
    refused("gym", "set --max_episode_frames", env_kwargs='{"max_episode_steps": 7}'),
    refused("gym", "must not have 'env_id': set --game", env_kwargs='{"env_id": "os:x"}'),
    refused("gym", "^--game=CartPole-v1 does not take the argument 'size' of ", env_kwargs='{"size": 7}'),
    refused(
        "gym", r"^--game=cartpol-v1 is not .* id; the nearest are: CartPole-v\d, .*\.$", game="cartpol-v1"
    ),
    refused("gym", r"is not a Gymnasium id; the nearest are: CartPole-v\d", game="CartPole-v77"),
    refused("gym", r"^--game=! is not a Gymnasium id; .* registers is MODULE:ID\.$", game="!"),
    refused("gym", r"^--game=gymnasium:! is not a Gymnasium id\.$", game="gymnasium:!"),
    refused("gym", r"is not .* gymnasium:CartPole-v\d", game="gymnasium:CartPol-v1"),
    refused("gym", "; write --game=minigrid:MiniGrid-Unheard-Of-v0", game="MiniGrid-Unheard-Of-v0"),
    refused("gym", "the module no_such_module, which is neither in the", game="no_such_module:Thing-v0"),
    refused("gym", "names the module no_such.module, which is neither", game="no_such.module:Thing-v0"),
    refused("gym", r"write --game=my_envs:Thing-v0\.", game="my_envs.py:Thing-v0"),
    refused(
        *("gym", "^--staggered_start needs a time limit .* has none; set --max_"),
        **{"game": "CliffWalking-v1", "staggered_start": True},
    ),
    refused("gym", "no vector environment of its own", vectorization="native", game=LIMITED),
    refused("gym", "argument 'lenght'", vectorization="native", env_kwargs='{"lenght": 3}'),
    refused("gym", "needs single environments", vectorization="sync", random_start_steps=3),
    refused("gym", "nearest are: CartPole", vectorization="native", game="CartPool-v1"),
    refused("gym", "changes single environments", vectorization="native", staggered_start=True),
    refused("gym", "changes single environments", vectorization="native", num_action_repeats=2),
    refused("catch", "^--random_start_steps=-1 is too low; it must be at least 0", random_start_steps=-1),
    refused("recall", "num_action_repeats=2 would skip", num_action_repeats=2),
    refused("minatar", "--game=brakeout is not a game .*; the nearest are: breakout", game="brakeout"),
    refused("minatar", "--game=xyz is not a game of MinAtar; choose one of: asterix", game="xyz"),
    refused("atari", r"^--game=SpaceInvader is not .*nearest are: SpaceInvaders.*\.$", game="SpaceInvader"),
    refused("atari", r"^--game=PongNoFrameskip-v4 .*; write --game=Pong\.$", game="PongNoFrameskip-v4"),
    # It would end the process.
    refused("atari", r"^--game=Combat is not supported: .*one player\.$", game="Combat"),
    refused("atari", "frames=30 must be greater than --max_random_noops=30", max_episode_frames=30),
    refused("atari", "^--halve_screen .*leave out --screen_size=48", halve_screen=True, screen_size=48),
    refused("atari", "has --sticky_action_probability=0.25; leave out .*=0.0", protocol="machado"),
    refused("atari", "use --engine=ale-py", engine="envpool", terminal_on_life_loss=True),
    refused("atari", "--max_random_noops=0 is not possible", engine="envpool", max_random_noops=0),
    refused("atari", "use --engine=ale-py", engine="envpool", halve_screen=True),
    refused("atari", "cannot be played", engine="envpool", game="AirRaid"),
    refused("atari", "Pong", engine="envpool", game="Pung"),
    refused("envpool", "not an id of EnvPool; the nearest are: CoinrunEasy-v0", game="CoinrunEazy-v0"),
    refused("envpool", "has 2 players, who act in turn; choose a game for one", game="Go9x9-v1"),
    refused("envpool", "not take .*are: max_episode_steps", env_kwargs='{"max_episode_step": 3}'),
    refused("envpool", "not have 'num_envs': set --env_batch_size", env_kwargs='{"num_envs": 3}'),
    refused("envpool", "set --envpool_threads", env_kwargs='{"num_threads": 3}'),
    refused("envpool", "is not a JSON object", env_kwargs="[]"),
    refused("envpool", "frame_skip", num_action_repeats=4),
    refused("envpool", "needs single environments", random_start_steps=4),
    refused("football", "use --engine=gfootball", engine="envpool", map_size="120x90"),
    refused("football", "use --engine=gfootball", engine="envpool", rewards="scoring,checkpoints"),
    refused("football", "of EnvPool; .*: academy_empty_goal", engine="envpool", game="academy_empty"),
    refused("football", f"--game={EMPTY} .*the nearest are: {EMPTY}e", engine="gfootball", game=EMPTY),
    refused("football", "choose one of: 11_vs_11_co.*academy_corner", engine="gfootball", game="zzz"),
    refused("football", "--game=tests is not a scenario of gfootball", engine="gfootball", game="tests"),
    refused("dmlab", r"^--width=98 is not valid; .* only multiples of 4, such as 100\.$", width=98),
    refused("dmlab", r"^--height=71 is not valid; .*such as 72\.$", height=71),
    refused("dmlab", "^--mixer_seed=2147483648 is too high", mixer_seed=2**31),
    refused("dmlab", "^--game=rooms_watermaz is .* are: rooms_watermaze", game="rooms_watermaz"),
    refused("dmlab", "nearest are: rooms_watermaze", game="contributed/dmlab30/rooms_watermaz"),
    refused("dmlab", "nearest are: rooms_watermaze", game="rooms_watermaze_test"),
    refused("dmlab", f"nearest are: {COLLECT}", game=f"{COLLECT}_train_test"),
    refused("dmlab", r"^--game=Pong is not a level of DMLab-30; docs/dmlab.md lists them\.$", game="Pong"),
]
ENGINES = {"atari": "ale_py", "envpool": "envpool"}


@pytest.mark.parametrize(("name", "settings", "sentence"), REFUSED, ids=lambda x: str(x)[:50])
def test_settings_that_are_refused(name, settings, sentence):
    if engine := ENGINES.get(settings.get("engine", name), settings.get("engine")):
        pytest.importorskip(engine)
    suite = registry.suite(name)
    with pytest.raises(ValueError, match=sentence) as refusal:
        suite_spec(suite, suite.config_class.of(**settings), 0)
    assert "\n" not in str(refusal.value)


ENVPOOL = r"EnvPool cannot be imported .*seed_rl\[envpool\]"


@pytest.mark.parametrize(
    ("name", "module", "remedy", "settings"),
    [
        ("atari", "ale_py", r"-m pip install .*\[atari\]'", {}),
        ("minatar", "minatar", r"-m pip install .*\[minatar\]'", {}),
        ("football", "gfootball", r"run tools/install_football\.sh", {"engine": "gfootball"}),
        ("dmlab", "deepmind_lab", r"docs/dmlab\.md says how", {}),
        ("envpool", "envpool", ENVPOOL, {}),
        ("football", "envpool", ENVPOOL, {"engine": "envpool"}),
        ("atari", "envpool", ENVPOOL, {"engine": "envpool"}),
    ],
)
def test_a_suite_that_is_not_installed_says_what_installs_it(monkeypatch, name, module, remedy, settings):
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    suite = registry.suite(name)
    with pytest.raises(ImportError, match=remedy):
        suite_spec(suite, suite.config_class(**settings), 0)
