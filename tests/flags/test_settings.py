import gymnasium
import pytest

from seed_rl.flags import settings
from seed_rl.flags.errors import UsageError


@pytest.mark.parametrize(
    ("environment", "agent", "words"),
    [
        ("cach", "ppo", "did you mean catch?"),
        ("ppo", "gym", "write gym ppo."),
        ("rainbow", "catch", "write catch rainbow."),
        ("vtrace", "vtrace", "write ENVIRONMENT vtrace, with one of: atari, catch,"),
        ("rainbow", None, "write ENVIRONMENT rainbow, with one of:"),
        ("BreakoutNoFrameskip-v4", "ppo", "write atari ppo --game=Breakout."),
        ("ALE/MsPacman-v5", "ppo", "write atari ppo --game=MsPacman."),
        ("Pong-ramDeterministic-v0", "ppo", "write atari ppo --game=Pong."),
        ("space_invaders", "ppo", "write atari ppo --game=SpaceInvaders."),
        ("CartPole-v1", "ppo", "write gym ppo --game=CartPole-v1."),
        ("CartPol-v1", "rainbow", "write gym rainbow --game=CartPole-v1."),
        ("cartpole-v1", None, "write gym AGENT --game=CartPole-v1."),
        ("HalfCheetah-v5", "sax", "write gym AGENT --game=HalfCheetah-v5."),
        ("CoinrunEasy-v0", "ppo", "write envpool ppo --game=CoinrunEasy-v0."),
        ("MiniGrid-Unheard-Of-v0", "ppo", "write gym ppo --game=minigrid:MiniGrid-Unheard-Of-v0."),
        ("mujoco", "ppo", "it is part of gym; write gym ppo --game=HalfCheetah-v5"),
        ("procgen", None, "it is part of envpool; write envpool AGENT --game=CoinrunEasy-v0"),
        ("Toy-Text", "dqn", "write gym dqn --game=FrozenLake-v1"),
        ("mine:Maze-v0", "ppo", "write gym ppo --game=mine:Maze-v0."),
        ("xyzzy", "ppo", "; choose one of: atari, catch,"),
    ],
)
def test_a_wrong_environment_gets_the_words_that_were_meant(environment, agent, words):
    with pytest.raises(UsageError) as error:
        settings.check_choices(environment, agent)
    assert f"--environment={environment} is not valid" in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(("family", "example"), settings.FAMILIES.items())
def test_the_example_of_a_family_exists(family, example):
    suite, game = example
    assert suite in settings.environments.names() and family not in settings.environments.names()
    if suite == "gym":
        module, _, env_id = game.rpartition(":")
        pytest.importorskip(module or "gymnasium")
        assert env_id in gymnasium.registry
    elif suite == "envpool":
        assert game in pytest.importorskip("envpool").list_all_envs()
