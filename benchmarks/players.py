"""Trains games of several players, each by one command, and plays them against players that follow rules.

    python -m benchmarks players --plots=docs     # docs/players.md
    python -m benchmarks players connect_four

Arguments: tictactoe, connect_four (PettingZoo's), spread (MPE2's simple_spread), roshambo (rock, paper,
scissors) and cost (of a pool of opponents); by default all. Each run is `seed_rl train` in a process of its
own, one after the other; one that is complete is not repeated when the same command is given again, and one
that is not resumes. Flags of `seed_rl train` may be added (as --name=value) and override the presets.

Each side of a board game begins in half of the games. Figures are of the best actions and, in brackets, of
actions that are drawn. Minutes are those of training, without the start of the processes.
"""

import dataclasses
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from benchmarks.harness import make_directory, print_result, print_table, steady_run
from benchmarks.learning_runs import Case, make_case, run_directory, train
from benchmarks.scripted_players import LookAhead, Perfect
from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.policy import Policy
from seed_rl.environments.batched import empty_output
from seed_rl.evaluation.agent import PlayedEpisode, PolicySide
from seed_rl.evaluation.load import PlayConfig, Subject, load_subject
from seed_rl.evaluation.matches import Side, play_games, scored
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.options import Options, option
from seed_rl.runs.layout import RunDirectory
from seed_rl.training.checkpoint import restore_algorithm
from seed_rl.types import EnvOutput


@dataclasses.dataclass(frozen=True)
class PlayersConfig(Options):
    """Settings of the benchmark of games for several players."""

    games: int = option(200, "Games that each policy plays.", at_least=1)
    seed: int = option(1, "Seed of the runs.", at_least=1)
    seconds: float = option(40.0, "Seconds of each run that measures the cost of a pool.", above=0)
    rounds: int = option(2, "Rounds of such runs, without a pool and with it in turn.", at_least=1)
    plots: str | None = option(None, "Where plots are written; by default in --logdir.", is_path=True)
    logdir: str = option("runs/players", "Where the run directories are.", is_path=True)


_TICTACTOE = "pettingzoo/ppo/classic.tictactoe_v3"
_SPREAD = "pettingzoo/ppo/mpe2.simple_spread_v3"
_ROSHAMBO = "pettingzoo/vtrace/benchmarks.roshambo:parallel_env"
_KEEP = "--keep_checkpoint_every_agent_steps="
_POOL = 32
# A policy is kept whenever one joins the pool. That lasts for several swings of the policy: opponents from a
# part of a swing lag behind, which makes it larger.
_ROSHAMBO_FLAGS = (
    *("--num_actors=2", "--env_batch_size=64", "--num_env_groups=2", "--inference_batch_size=64"),
    *("--mlp_sizes=32", "--lstm_size=0", "--use_last_action_and_reward=false", "--unroll_length=8"),
    *("--batch_size=16", "--learning_rate=0.01", "--learning_rate_schedule=constant", "--entropy_cost=0.2"),
    *("--normalize_rewards=false", "--league_every=50", f"--league_size={_POOL}", f"{_KEEP}6400"),
    "--total_environment_frames=400000",
)
# Preset, further flags, and a label, of each run.
RUNS: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "tictactoe": (
        (_TICTACTOE, (f"{_KEEP}40000",), ""),
        (_TICTACTOE.replace("ppo", "vtrace"), (f"{_KEEP}60000",), ""),
        (_TICTACTOE, (f"{_KEEP}40000", "--lstm_size=64"), "LSTM"),
    ),
    "connect_four": (("pettingzoo/ppo/classic.connect_four_v3", (f"{_KEEP}500000",), ""),),
    "spread": (
        (_SPREAD, (f"{_KEEP}200000",), ""),
        (_SPREAD, (f"{_KEEP}200000", "--player_id=true"), "player_id"),
    ),
    "roshambo": (
        (_ROSHAMBO, (*_ROSHAMBO_FLAGS, "--opponents=self"), "self"),
        (_ROSHAMBO, (*_ROSHAMBO_FLAGS, "--opponents=past"), "past"),
    ),
    "cost": (),
}

_BOARDS: dict[str, tuple[str, Callable[[], Side]]] = {
    "tictactoe": ("Tic-tac-toe against a perfect player", Perfect),
    "connect_four": ("Connect four against look-ahead", LookAhead),
}

Points = tuple[Sequence[float], ...]


class Panel(NamedTuple):
    """Axes of a plot: labels, lines `(x, y)` by label, and the height of a grey line."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    grey: float | None = None


class Run(NamedTuple):
    """A run that has been trained, and its name in tables."""

    case: Case
    subject: Subject
    minutes: float
    label: str

    def policies(self) -> Iterator[tuple[float, float, Policy]]:
        """Environment frames, minutes of training, and a policy that was kept, valid until the next one."""
        run, spec = self.subject.run, self.subject.probed.spec
        num_envs = int(run.learner_settings["num_envs"])
        algorithm = algorithms.make(run.agent, run.agent_config(), spec, num_envs)
        for prefix in RunDirectory(run.logdir).kept_checkpoints.prefixes()[::-1]:
            progress = restore_algorithm(algorithm, str(prefix))
            yield float(progress.env_frames), float(progress.seconds) / 60, algorithm.policy

    def play(
        self, games: int, opponent: Side | None = None, greedy: bool = True, policy: Policy | None = None
    ) -> list[PlayedEpisode]:
        """Games against an opponent, or itself, of the last policy unless another is given."""
        subject, config = self.subject, PlayConfig(episodes=games, greedy=greedy)
        action, env_id = subject.probed.spec.action, subject.evaluation_env_id
        side = PolicySide(policy or subject.policy, action, env_id, greedy, config.seed)
        sides = [side, *[opponent or side] * (subject.probed.spec.num_players - 1)]
        return list(play_games(subject.suite, subject.environment_config, sides, config))

    def curve(self, games: int, measure: Callable[[list[PlayedEpisode]], float], opponent: Any) -> Points:
        """A measure of games over minutes of training."""
        points = [
            (minutes, measure(self.play(games, opponent and opponent(), policy=policy)))
            for _, minutes, policy in self.policies()
        ]
        return _columns([*points, (self.minutes, measure(self.play(games, opponent and opponent())))])


def main(argv: list[str]) -> int:
    """Trains and plays the games, prints their tables and writes their plots."""
    config, rest = parse_options(argv, __doc__ or "", PlayersConfig, positional=None, pass_through=True)
    flags = [arg for arg in rest if arg.startswith("--")]
    names = [arg for arg in rest if not arg.startswith("--")] or list(RUNS)
    if unknown := set(names) - set(RUNS):
        raise UsageError(f"{min(unknown)!r} is not a game of this benchmark; choose from {', '.join(RUNS)}.")
    cases = {name: [make_case(row[0], (*row[1], *flags), row[2]) for row in RUNS[name]] for name in names}
    make_directory("logdir", config.logdir)
    plots = Path(config.plots or config.logdir)
    figures: dict[str, Any] = {}
    panels: list[Panel] = []
    for name in names:
        runs = [_train(config, case) for case in cases[name]]
        found = figures[name] = {}
        if name == "cost":
            _cost(config, flags, found)
        elif name == "roshambo":
            _draw(plots / "roshambo.png", [_mixtures(run, found) for run in runs])
        elif name == "spread":
            panels.append(_spread(runs, config, found))
        else:
            panels.append(_board(name, runs, config, found))
    if panels:
        _draw(plots / "players_learning.png", panels)
    print_result({"benchmark": "players", "figures": figures})
    return 0


def _train(config: PlayersConfig, case: Case) -> Run:
    """Trains a case, unless its run is complete."""
    logdir = run_directory(Path(config.logdir), case, f"seed_{config.seed}")
    print(f"{case.name}: {logdir}", file=sys.stderr, flush=True)
    found = train(case, config.seed, logdir, mark=None, stop_at_mark=False)
    label = " ".join(filter(None, (case.agent, case.label)))
    return Run(case, load_subject(str(logdir), "last", PlayConfig()), found.seconds / 60, label)


def _board(name: str, runs: Sequence[Run], config: PlayersConfig, figures: dict[str, Any]) -> Panel:
    """Plays a board game against a player that follows rules."""
    title, player = _BOARDS[name]
    rows, lines = [], {}
    for run in runs:
        best, drawn = (scored(run.play(config.games, player(), greedy)) for greedy in (True, False))
        cells = [f"{best[result]:.0f} ({drawn[result]:.0f})" for result in ("wins", "draws", "losses")]
        share = f"{best['score']:.3f} ({drawn['score']:.3f})"
        rows.append([run.label, run.case.total_frames, run.minutes, *cells, share])
        figures[run.label] = {"minutes": run.minutes, "best_actions": best, "drawn": drawn}
        lines[run.label] = run.curve(config.games, lambda games: scored(games)["score"], player)
    columns = ["run", "frames", "minutes", "wins", "draws", "losses", "score"]
    print_table(f"{title}: {config.games} games", columns, rows)
    return Panel(title, "minutes of training", "score", lines)


def _spread(runs: Sequence[Run], config: PlayersConfig, figures: dict[str, Any]) -> Panel:
    """Plays simple spread: mean returns of an agent and episode."""
    random, spread = np.random.default_rng(config.seed), runs[0].subject

    def drawn(env: EnvOutput, rows: np.ndarray) -> np.ndarray:
        return random.integers(5, size=len(rows))

    sides: list[Side] = [drawn] * spread.probed.spec.num_players
    played = play_games(spread.suite, spread.environment_config, sides, PlayConfig(episodes=config.games))
    found = figures["random"] = _mean_return(list(played))
    rows: list[list[Any]] = [["random play", None, None, f"{found:.2f}", 6 * found - 75]]
    lines = {}
    for run in runs:
        best, sampled = (_mean_return(run.play(config.games, None, greedy)) for greedy in (True, False))
        figures[run.label] = {"minutes": run.minutes, "best_actions": best, "drawn": sampled}
        # The original MPE gives each agent the sum of all, and counts collisions with itself.
        returns = [f"{best:.2f} ({sampled:.2f})", 6 * best - 75]
        rows.append([run.label, run.case.total_frames, run.minutes, *returns])
        lines[run.label] = run.curve(config.games, _mean_return, None)
    columns = ["run", "frames", "minutes", "mean return", "as the original MPE counts"]
    print_table(f"Simple spread: mean return of an agent, {config.games} episodes", columns, rows)
    return Panel("Simple spread", "minutes of training", "mean return", lines, found)


def _mean_return(games: Sequence[PlayedEpisode]) -> float:
    """The mean return of a player."""
    return float(np.mean([game.returns for game in games]))


def _mixtures(run: Run, figures: dict[str, Any]) -> Panel:
    """Looks at the probabilities of rock, paper and scissors over training."""
    env = empty_output(run.subject.probed.spec, 1)
    env = tf.nest.map_structure(tf.constant, env._replace(done=np.ones(1, bool)))
    action, points = run.subject.probed.spec.action.zeros(1), []
    for frames, _, policy in run.policies():
        output, _ = policy.act(tf.constant(action), env, policy.initial_state(1), tf.zeros(1, tf.int32))
        points.append((frames / 1000, *tf.nn.softmax(output.info["policy_parameters"][0]).numpy().tolist()))
    mixtures = np.array(points)[:, 1:]
    pools = np.array([mixtures[max(0, i + 1 - _POOL) : i + 1].mean(0) for i in range(len(mixtures))])
    half = len(mixtures) // 2
    distances = {
        "policy": float(_distance(mixtures[half:]).mean()),
        f"last {_POOL}": float(_distance(pools[half:]).mean()),
        "time average": float(_distance(mixtures[half:].mean(0))),
    }
    figures[run.case.label] = distances
    title = f"Roshambo, {run.case.label}: total variation distance to the even mixture, second half"
    print_table(title, list(distances), [list(distances.values())])
    thousands, *shares = _columns(points)
    lines = {
        move: (thousands, share) for move, share in zip(("rock", "paper", "scissors"), shares, strict=True)
    }
    return Panel(f"--opponents={run.case.label}", "thousand agent steps", "probability", lines, 1 / 3)


def _distance(mixtures: np.ndarray) -> np.ndarray:
    """Total variation distances of mixtures `[..., 3]` to the even one."""
    return np.abs(mixtures - 1 / 3).sum(-1) / 2


def _cost(config: PlayersConfig, flags: Sequence[str], figures: dict[str, Any]) -> None:
    """Measures frames/s without a pool, and with one that is full."""
    pool = ["--opponents=past", "--league_size=8", "--league_every=10"]
    case = make_case(_TICTACTOE, ["--total_environment_frames=1000000000", *flags])
    rates: dict[str, list[float]] = {"--opponents=self": [], " ".join(pool): []}
    for _ in range(config.rounds):
        for name, several in rates.items():
            run = steady_run([*case.arguments, *name.split()], config.seconds / 2, config.seconds)
            several.append(run.frames_per_second)
    rows = [[f"`{name}`", *several, statistics.median(several)] for name, several in rates.items()]
    columns = ["flags", *(f"round {i + 1}" for i in range(config.rounds)), "median"]
    print_table("Tic-tac-toe with PPO: frames/s", columns, rows)
    figures.update(rates)


def _columns(points: Sequence[Sequence[float]]) -> Any:
    """The columns of rows, as tuples."""
    return tuple(zip(*points, strict=True))


def _draw(path: Path, panels: Sequence[Panel]) -> None:
    """Draws panels side by side into a PNG file."""
    make_directory("plots", str(path.parent))
    with matplotlib.rc_context({"axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False}):
        figure = Figure(figsize=(3.6 * max(2, len(panels)), 2.8), dpi=120, layout="constrained")
        is_same = len({panel.y for panel in panels}) == 1
        places = figure.subplots(1, len(panels), squeeze=False, sharey=is_same)[0]
        for place, panel in zip(places, panels, strict=True):
            if panel.grey is not None:
                place.axhline(panel.grey, color="#BBBBBB")
            for label, (x, y) in panel.lines.items():
                place.plot(x, y, label=label, linewidth=1.4)
            place.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            place.title.set_fontsize(9)
            place.legend(fontsize=8)
        figure.savefig(path)
