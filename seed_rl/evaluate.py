r"""Evaluates a run's trained agent: prints its scores, writes JSON, and records a video if asked.

Examples:
  python -m seed_rl.evaluate --logdir=runs/atari_vtrace_Pong --episodes=100
  python -m seed_rl.evaluate --logdir=runs/atari_vtrace_Pong --checkpoint=best --record=pong.mp4

The agent and the environment are rebuilt from the run directory's record. Episodes follow the paper's
protocol: Atari games with 1 to 30 no-ops and at most 108,000 frames, R2D2 with an epsilon of 1e-3.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.specs import suite_spec
from seed_rl.evaluation.config import EvaluateConfig
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, require_package, run_main, usage_errors
from seed_rl.flags.outputs import check_output
from seed_rl.learner.quiet import quiet_start
from seed_rl.loading import fast_tensorflow_import
from seed_rl.runs import record
from seed_rl.runs.imports import check_imports
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord

if TYPE_CHECKING:
    from seed_rl.evaluation.load import Trained
    from seed_rl.evaluation.player import PlayedEpisode


class _Subject(NamedTuple):
    """What is evaluated: a run, its environments, and the policy that it trained."""

    run: RunRecord
    suite: Suite
    environment_config: EnvironmentConfig
    trained: "Trained"


def main(argv: list[str]) -> int:
    """Runs an evaluation; returns its exit code."""
    config, _ = parse_options(argv, __doc__ or "", EvaluateConfig)
    require_package("tensorflow", "learner")
    if config.record:
        require_package("imageio_ffmpeg", "record")
        check_output(Path(config.record), "record", config.overwrite)
    with quiet_start(), usage_errors():
        subject = _load(config)
    run, trained = subject.run, subject.trained
    default = RunDirectory(run.logdir).evaluation(trained.checkpoint)
    output = Path(config.output) if config.output else default
    check_output(output, "output", config.overwrite)
    print(f"{trained.checkpoint}: {trained.env_frames:,} frames of training.", flush=True)
    with usage_errors():
        episodes = _play(config, subject)
    _report(config, subject, episodes, output)
    return 0


def _load(config: EvaluateConfig) -> _Subject:
    """Rebuilds agent and environment from the run directory; ValueError with one sentence if that fails."""
    if config.logdir is None:
        raise UsageError("No run is chosen; add --logdir=RUN_DIRECTORY.")
    run = record.read(config.logdir)
    check_imports(run, config.trust_code)
    suite = environments.suite(run.environment)
    environment_config = run.environment_config().for_evaluation()

    with fast_tensorflow_import():
        import keras

        from seed_rl.evaluation.load import find_checkpoint, load

    keras.utils.set_random_seed(config.seed)
    checkpoint = find_checkpoint(run, config.checkpoint)
    spec = suite_spec(suite, environment_config, config.seed)
    return _Subject(run, suite, environment_config, load(run, checkpoint, spec))


def _play(config: EvaluateConfig, subject: _Subject) -> "list[PlayedEpisode]":
    import tqdm

    from seed_rl.evaluation.player import play

    with tqdm.tqdm(total=config.episodes, unit=" episodes", dynamic_ncols=True, disable=None) as bar:
        total = 0.0

        def show(episode: "PlayedEpisode") -> None:
            nonlocal total
            total += episode.episode_return
            bar.update()
            bar.set_postfix_str(f"mean return {total / max(bar.n, 1):.2f}", refresh=False)

        return play(
            subject.suite,
            subject.environment_config,
            subject.trained.policy,
            env_id=int(subject.run.learner_settings["num_envs"]),
            episodes=config.episodes,
            num_envs=config.num_envs,
            greedy=config.greedy,
            seed=config.seed,
            on_episode=show,
        )


def _report(
    config: EvaluateConfig, subject: _Subject, episodes: "Sequence[PlayedEpisode]", output: Path
) -> None:
    """Prints the table; writes the JSON file, the TensorBoard events and the video."""
    from seed_rl.evaluation.board import write_board
    from seed_rl.evaluation.report import summarize, table, write_json

    run, trained = subject.run, subject.trained
    summary = summarize(run, episodes)
    print(table(summary, subject.environment_config.num_action_repeats))
    content: dict[str, Any] = {
        "run": str(run.logdir),
        "checkpoint": trained.checkpoint,
        "env_frames": trained.env_frames,
        "training_seconds": trained.seconds,
        "policy": "greedy" if config.greedy else "as the agent evaluates",
        "first_seed": config.seed,
        "environment": {"name": run.environment, "settings": subject.environment_config.to_dict()},
        "agent": run.agent,
        "versions": run.versions,
        **summary,
        "returns": [episode.episode_return for episode in episodes],
        "episode_agent_steps": [episode.agent_steps for episode in episodes],
    }
    write_json(output, content)
    print(f"Results: {output}")
    by_return = sorted(episodes, key=lambda episode: episode.episode_return)
    best, typical = by_return[-1], by_return[len(by_return) // 2]
    with usage_errors():
        picture = _picture(subject, best)
        write_board(run.logdir, trained.env_frames, summary, picture)
        if config.record:
            _record(subject, [("best", best), ("typical", typical)], Path(config.record))


def _picture(subject: _Subject, episode: "PlayedEpisode") -> Any:
    """Scenes of an episode for TensorBoard; None if the environment cannot be rendered."""
    from seed_rl.evaluation.rerun import Rerun
    from seed_rl.evaluation.video import montage

    try:
        return montage(Rerun(subject.suite, subject.environment_config, episode))
    except (ValueError, ImportError) as error:
        print(f"No picture of gameplay: {error}")
        return None


def _record(subject: _Subject, episodes: "list[tuple[str, PlayedEpisode]]", path: Path) -> None:
    from seed_rl.evaluation.rerun import Rerun
    from seed_rl.evaluation.video import write_video

    reruns = [(title, Rerun(subject.suite, subject.environment_config, e)) for title, e in episodes]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, reruns)
    print(f"Video of the best episode and a typical one: {path}")
    if not all(rerun.is_faithful for _, rerun in reruns):
        print("The environment does not reproduce an episode from its seed: the video shows other episodes.")


if __name__ == "__main__":
    run_main(main)
