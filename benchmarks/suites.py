"""Goals of presets, and the suites that benchmarks.learning trains."""

from collections.abc import Sequence
from typing import NamedTuple

from seed_rl.flags.flagfile import configs_directory
from seed_rl.runs.record import RunRecord


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


def protocol(run: RunRecord) -> str:
    """The run's `--protocol`, which only Atari has; empty for the paper's, `noops`."""
    name = run.environment_settings.get("protocol", "noops")
    return "" if name == "noops" else name


def goal(run: RunRecord) -> float | None:
    """The mean return that a run's preset is meant to reach; None if it has none for the run's protocol."""
    if protocol(run):
        return None
    played = (run.environment, run.game)
    return next((g.mark for g in GOALS if (g.environment, g.game) == played and run.agent in g.agents), None)


class Row(NamedTuple):
    """A preset as benchmarks.learning takes it, the seeds of its runs, and flags that are added.

    `label` tells it from other rows with the same preset.
    """

    preset: str
    seeds: tuple[int, ...]
    flags: tuple[str, ...] = ()
    label: str = ""


class Suite(NamedTuple):
    """Runs whose records are one section of docs/scores.md.

    Attributes:
      rows: what is trained.
      about: a sentence for the page; may be empty.
      partway: environment frames at which the return is also given; None: only at the end.
    """

    rows: tuple[Row, ...]
    about: str = ""
    partway: int | None = None


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
_ROBOTS = ("HalfCheetah", "Hopper", "Walker2d", "Ant")
_RECURRENT = {"r2d2": ("--lstm_size=64", "--burn_in=10"), "vtrace": ("--lstm_size=64",)}
_MINATAR = ("asterix", "freeway", "seaquest", "space_invaders")
_MACHADO = "--protocol=machado"


def _of(preset: str, game: str, frames: int, *flags: str) -> tuple[str, ...]:
    """Flags of a preset in configs/small for a game that it is not named after."""
    path = configs_directory() / "small" / f"{preset}.flags"
    return f"--flagfile={path}", f"--game={game}", f"--total_environment_frames={frames}", *flags


def _mujoco(preset: str, game: str, seeds: Sequence[int] = THREE_SEEDS) -> Row:
    """HalfCheetah's preset, which fits the other robots too, for as many frames as are usual."""
    agent = preset.split("_")[1]
    # So that a run of SAC that was interrupted resumes with what was in its replay.
    frames, flags = {"sac": (500_000, ("--checkpoint_replay",)), "ppo": (1_000_000, ())}[agent]
    label = "crossq" * preset.endswith("crossq")
    return Row(f"gym/{agent}/{game}", tuple(seeds), _of(preset, game, frames, *flags), label)


_STUDIED = ("SpaceInvaders", "Breakout")


def _study(
    label: str, *flags: str, agent: str = "vtrace", games: Sequence[str] = _STUDIED[:1], entropy: float = 0.01
) -> list[Row]:
    """What Atari's preset learns in 5M frames with other settings; `entropy` is its cost at the end."""
    every = ("--total_environment_frames=5000000", f"--final_entropy_cost={entropy:g}")
    return [Row(f"atari/{agent}/{game}", (1,), (*every, *flags), label) for game in games]


SUITES: dict[str, Suite] = {
    "atari": Suite(
        (
            Row("atari/vtrace/Pong", THREE_SEEDS),
            Row("atari/vtrace/Pong", THREE_SEEDS, ("--precision=bfloat16",), "bfloat16"),
            Row("atari/vtrace/Breakout", THREE_SEEDS),
            Row("atari/vtrace/SpaceInvaders", THREE_SEEDS),
            Row("atari/vtrace/Qbert", THREE_SEEDS),
            Row("atari/vtrace/Seaquest", (1,)),
            Row("atari/vtrace/BeamRider", (1,)),
        ),
        "Random no-ops at the start of a game, no sticky actions, minimal actions; a lost life ends the "
        "agent's episode, and returns are those of whole games.",
    ),
    "machado": Suite(
        (
            *(
                Row(f"atari/vtrace/{game}", THREE_SEEDS, (_MACHADO,))
                for game in ("Pong", "Breakout", "Qbert", "SpaceInvaders", "Seaquest", "BeamRider")
            ),
            *(
                Row(f"atari/{agent}/{game}", (1,), _of(preset, game, 10_000_000, _MACHADO))
                for game in ("Pong", "Breakout")
                for agent, preset in (("ppo", "atari_ppo"), ("pqn", "atari_pqn_pong"))
            ),
        ),
        "[The protocol of Machado et al.](environments.md#protocols-for-atari): sticky actions (0.25), no "
        "ends at lost lives, no random no-ops; minimal actions. MR.Q (arXiv:2501.16142, ten seeds) has at as "
        "many frames: Pong 17.6, Breakout 34, Q*bert 3,939, Space Invaders 702, Seaquest 3,523, Beam Rider "
        "2,300.",
    ),
    # What Atari's preset was chosen from.
    "study": Suite(
        (
            *_study("preset", games=_STUDIED),
            *_study("entropy_falls", entropy=0, games=_STUDIED),
            *_study("discount_98", "--discounting=0.98"),
            *_study("discount_995", "--discounting=0.995"),
            *_study("rate_4", "--learning_rate=0.0004"),
            *_study("clipped", agent="appo"),
            *_study("passes_2", "--passes=2", "--learning_rate=0.0006", agent="appo"),
        )
    ),
    "gym": Suite(
        (
            _mujoco("gym_sac_halfcheetah-v5", "HalfCheetah-v5"),
            _mujoco("gym_sac_halfcheetah-v5", "Hopper-v5", (1,)),
            _mujoco("gym_sac_halfcheetah-v5", "Walker2d-v5", (1,)),
            *(_mujoco("gym_sac_crossq", f"{robot}-v5") for robot in _ROBOTS),
            _mujoco("gym_sac_crossq", "Humanoid-v5", (1,)),
            _mujoco("gym_ppo_halfcheetah-v5", "HalfCheetah-v5"),
            _mujoco("gym_ppo_halfcheetah-v5", "Hopper-v5", (1,)),
            _mujoco("gym_ppo_halfcheetah-v5", "Walker2d-v5", (1,)),
            Row("gym/ppo/LunarLander-v3", (1,)),
        ),
        "SAC and CrossQ play without exploration in one more environment. MR.Q (arXiv:2501.16142, ten seeds, "
        "v4) has after 500,000 agent steps: HalfCheetah 11,856, Hopper 2,272, Walker2d 5,160, Humanoid "
        "8,061.",
        partway=300_000,
    ),
    "memory": Suite(
        (
            *(Row(f"recall/{agent}", THREE_SEEDS) for agent in ("r2d2", "vtrace")),
            *(
                Row(
                    f"gym/{agent}/popgym:popgym-{task}-v0",
                    THREE_SEEDS,
                    (f"--total_environment_frames={frames}", *flags),
                )
                for task, frames in (("PositionOnlyCartPoleEasy", 500_000), ("RepeatPreviousEasy", 1_000_000))
                for agent, flags in _RECURRENT.items()
            ),
            Row(
                "gym/vtrace/popgym:popgym-RepeatPreviousEasy-v0",
                (1,),
                ("--total_environment_frames=1000000",),
                "no_lstm",
            ),
        ),
        "Tasks that need memory, with an LSTM unless its size is 0: Recall, and two of POPGym (Morad et al., "
        "ICLR 2023; `pip install popgym`), whose best return is 1: CartPole without velocities, and "
        "repeating what was observed four agent steps ago.",
    ),
    "minatar": Suite(
        tuple(Row(f"minatar/{agent}/{game}", (1,)) for game in _MINATAR for agent in ("ppo", "pqn"))
    ),
    "envpool": Suite(
        (
            Row("envpool/ppo/MiniGrid-DoorKey-5x5-v0", (1,), ("--total_environment_frames=500000",)),
            Row("envpool/vtrace/CoinrunEasy-v0", (1,), (*_IMAGES.split(), *_COINRUN)),
            Row("envpool/vtrace/Basic-v1", (1,), (*_IMAGES.split(), *_VIZDOOM)),
            Row("envpool/sac/CartpoleSwingup-v1", (1,), _SWINGUP),
            Row("football/ppo", (1,)),
            Row("football/ppo/academy_3_vs_1_with_keeper", (1,), tuple(_KEEPER.split())),
        )
    ),
}
