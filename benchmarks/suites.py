"""Goals of presets, and the suites that benchmarks.learning trains."""

from collections.abc import Sequence
from typing import NamedTuple

from seed_rl.flags.flagfile import configs_directory


class Goal(NamedTuple):
    """The mean return that presets of these agents, and perhaps `rainbow`, are meant to reach."""

    environment: str
    game: str | None
    mark: float
    agents: tuple[str, ...]


GOALS = (
    Goal("catch", None, 0.95, ("ppo", "appo", "a2c", "dqn", "pqn", "sac", "vtrace", "r2d2")),
    Goal("gym", "CartPole-v1", 475, ("ppo", "appo", "a2c", "dqn", "pqn", "vtrace", "r2d2")),
    Goal("recall", None, 0.95, ("ppo", "appo", "a2c", "pqn", "vtrace", "r2d2")),
    Goal("minatar", "breakout", 10, ("ppo", "dqn", "rainbow", "pqn", "vtrace", "r2d2")),
    Goal("atari", "Pong", 18, ("vtrace", "appo", "ppo", "pqn", "dqn", "rainbow")),
    Goal("atari", "Breakout", 120, ("vtrace",)),
    Goal("atari", "SpaceInvaders", 650, ("vtrace",)),
    Goal("atari", "Qbert", 9000, ("vtrace",)),
    Goal("atari", "Seaquest", 1000, ("vtrace",)),
    Goal("atari", "BeamRider", 1500, ("vtrace",)),
    Goal("gym", "HalfCheetah-v5", 6000, ("sac",)),
    Goal("gym", "HalfCheetah-v5", 1500, ("ppo",)),
    Goal("gym", "LunarLander-v3", 200, ("ppo",)),
    Goal("football", "academy_empty_goal_close", 0.95, ("ppo", "vtrace")),
    Goal("gym", "Pendulum-v1", -200, ("sac",)),
)


def goal(environment: str, game: str | None, agent: str) -> float | None:
    """The mean return that a preset is meant to reach; None if it has no goal."""
    played = (environment, game)
    return next((g.mark for g in GOALS if (g.environment, g.game) == played and agent in g.agents), None)


class Row(NamedTuple):
    """A preset as benchmarks.learning takes it, the seeds of its runs, and flags that are added.

    `label` tells it from other rows with the same preset.
    """

    preset: str
    seeds: tuple[int, ...]
    flags: tuple[str, ...] = ()
    label: str = ""


THREE_SEEDS = (1, 2, 3)
# For EnvPool's images, where the command's own settings are for everything else.
_IMAGES = (
    "--torso=shallow --lstm_size=0 --frame_stack=1 --normalize_observations=true --num_actors=2 "
    "--env_batch_size=16 --num_env_groups=2 --batch_size=8 --learning_rate=0.0006 --adam_epsilon=0.00001 "
    "--entropy_cost=0.01"
)
_COINRUN = ("--unroll_length=40", "--discounting=0.995", "--total_environment_frames=2000000")
_VIZDOOM = ("--unroll_length=20", "--discounting=0.99", "--total_environment_frames=600000")
_SWINGUP = ("--num_actors=1", "--env_batch_size=8", "--total_environment_frames=150000")
# Longer rollouts and smaller updates than for the empty goal, because goals are rare.
_KEEPER = (
    "--total_environment_frames=2000000 --env_batch_size=16 --inference_batch_size=32 --unroll_length=64 "
    "--batch_size=8 --epochs=4 --learning_rate=0.0003 --entropy_cost=0.003"
)
_MINATAR = ("asterix", "freeway", "seaquest", "space_invaders")


def _mujoco(agent: str, game: str) -> tuple[str, ...]:
    """HalfCheetah's preset, which fits the other robots too, for as many frames as are usual."""
    preset = configs_directory() / "small" / f"gym_{agent}_halfcheetah-v5.flags"
    frames = {"sac": 500_000, "ppo": 1_000_000}[agent]
    return f"--flagfile={preset}", f"--game={game}", f"--total_environment_frames={frames}"


_STUDIED = ("SpaceInvaders", "Breakout")


def _study(
    label: str, *flags: str, agent: str = "vtrace", games: Sequence[str] = _STUDIED[:1], entropy: float = 0.01
) -> list[Row]:
    """What Atari's preset learns in 5M frames with other settings; `entropy` is its cost at the end."""
    every = ("--total_environment_frames=5000000", f"--final_entropy_cost={entropy:g}")
    return [Row(f"atari/{agent}/{game}", (1,), (*every, *flags), label) for game in games]


SUITES: dict[str, tuple[Row, ...]] = {
    "atari": (
        Row("atari/vtrace/Pong", THREE_SEEDS),
        Row("atari/vtrace/Breakout", THREE_SEEDS),
        Row("atari/vtrace/SpaceInvaders", THREE_SEEDS),
        Row("atari/vtrace/Qbert", THREE_SEEDS),
        Row("atari/vtrace/Seaquest", (1,)),
        Row("atari/vtrace/BeamRider", (1,)),
    ),
    # What Atari's preset was chosen from.
    "study": (
        *_study("preset", games=_STUDIED),
        *_study("entropy_falls", entropy=0, games=_STUDIED),
        *_study("discount_98", "--discounting=0.98"),
        *_study("discount_995", "--discounting=0.995"),
        *_study("rate_4", "--learning_rate=0.0004"),
        *_study("clipped", agent="appo"),
        *_study("passes_2", "--passes=2", "--learning_rate=0.0006", agent="appo"),
    ),
    "gym": (
        *(
            Row(f"gym/{agent}/{game}", seeds, _mujoco(agent, game))
            for game, seeds in (("HalfCheetah-v5", THREE_SEEDS), ("Hopper-v5", (1,)), ("Walker2d-v5", (1,)))
            for agent in ("sac", "ppo")
        ),
        Row("gym/ppo/LunarLander-v3", (1,)),
    ),
    "minatar": tuple(Row(f"minatar/{agent}/{game}", (1,)) for game in _MINATAR for agent in ("ppo", "pqn")),
    "envpool": (
        Row("envpool/ppo/MiniGrid-DoorKey-5x5-v0", (1,), ("--total_environment_frames=500000",)),
        Row("envpool/vtrace/CoinrunEasy-v0", (1,), (*_IMAGES.split(), *_COINRUN)),
        Row("envpool/vtrace/Basic-v1", (1,), (*_IMAGES.split(), *_VIZDOOM)),
        Row("envpool/sac/CartpoleSwingup-v1", (1,), _SWINGUP),
        Row("football/ppo", (1,)),
        Row("football/ppo/academy_3_vs_1_with_keeper", (1,), tuple(_KEEPER.split())),
    ),
}
