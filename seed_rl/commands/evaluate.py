r"""Evaluates a run's trained agent: prints its scores, writes JSON, and records a video if asked.

Examples:
  seed_rl evaluate runs/atari_vtrace_Pong --episodes=100
  seed_rl evaluate runs/atari_vtrace_Pong --checkpoint=best --record=pong.mp4
  seed_rl evaluate runs/atari_dqn_Pong --checkpoint=kept --max_agent_steps=125000 --num_envs=4
  seed_rl evaluate runs/connect_four --against=runs/connect_four_old --episodes=200

The agent and the environment are rebuilt from the run directory's record. Episodes follow the paper's
protocol: Atari games with 1 to 30 no-ops and at most 108,000 frames, R2D2 with an epsilon of 1e-3. In a game
of several players, the agent plays them all, or with --against one of them in turn.

Exit codes: 0 when all episodes were played, 2 if a flag is wrong or the environment makes no video, 130 after
Ctrl-C, 143 after SIGTERM, 1 otherwise. If an environment fails too often, the episodes that ended before are
reported all the same.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_rl.environments.base import PICKLE
from seed_rl.evaluation.load import KEPT, EvaluateConfig, Subject, load_subjects
from seed_rl.files import shortened
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError, report_answer, require_package, usage_errors
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, reason
from seed_rl.runs.layout import RunDirectory

if TYPE_CHECKING:
    from seed_rl.evaluation.video import Rerun

_NO_RENDER_MODE = (
    " Let the function take render_mode and pass it on, such as lambda render_mode=None: "
    "gymnasium.make(ID, render_mode=render_mode)."
)


def main(argv: list[str]) -> int:
    """Runs an evaluation; returns its exit code."""
    config, _ = parse_options(argv, __doc__ or "", EvaluateConfig, positional=("logdir",))
    paths = {name: getattr(config, name) for name in ("logdir", "against", "output", "record")}
    absolute = {name: os.path.abspath(path) for name, path in paths.items() if path}
    config = dataclasses.replace(config, **absolute)  # Environments that change the directory play here.
    require_package("tensorflow", "learner")
    if config.record:
        require_package("imageio_ffmpeg", "record")
        check_output(Path(config.record), "record", config.overwrite)
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl evaluate RUN_DIRECTORY.")
    if config.checkpoint != KEPT:
        return _evaluate(config)
    return max(map(_evaluate, _of_kept(config)), default=0)


def _of_kept(config: EvaluateConfig) -> Iterator[EvaluateConfig]:
    """The settings for each checkpoint that was kept, in the order of training; logs which have results."""
    run = RunDirectory(Path(str(config.logdir)))
    prefixes = run.kept_checkpoints.prefixes()[::-1]
    if not prefixes:
        raise UsageError(
            f"{run.path} has no checkpoints that were kept; train with --keep_checkpoint_every_agent_steps."
        )
    for prefix in prefixes:
        results = run.evaluation(prefix)
        if results.exists() and not config.overwrite:
            print(f"{prefix}: its results are in {results}.")
        else:
            yield dataclasses.replace(config, checkpoint=str(prefix))


def _load(config: EvaluateConfig) -> list[Subject]:
    """The run, and its opponent if there is one; raises UsageError."""
    with quiet_start(), usage_errors():
        return load_subjects(config, list(filter(None, (config.logdir, config.against))), config.checkpoint)


def _answer(config: EvaluateConfig) -> dict[str, Any]:
    """The results, or the reason why there are none, for `seed_rl.evaluate`; writes nothing."""
    subjects = _load(config)
    from seed_rl.evaluation.report import play_episodes, results

    with usage_errors():
        episodes, failure = play_episodes(config, subjects)
    return results(config, subjects, episodes, failure) if episodes else {"failure": failure}


def _evaluate(config: EvaluateConfig) -> int:
    """Evaluates one checkpoint; returns the exit code."""
    subject, *others = subjects = _load(config)
    from seed_rl.evaluation.agent import PlayedEpisode
    from seed_rl.evaluation.report import play_episodes, results, summarize, table, write_results
    from seed_rl.evaluation.video import Rerun, RerunError

    run, environment_config = subject.run, subject.environment_config
    name = subject.checkpoint
    for other in others:
        name += f"_against_{other.run.logdir.absolute().name}_{Path(other.checkpoint).name}"
    output = Path(config.output or RunDirectory(run.logdir).evaluation(name))
    check_output(output, "output", config.overwrite)

    def rerun(episode: PlayedEpisode) -> Rerun:
        return Rerun(subject.suite, environment_config, episode, config.failures)

    if config.record:
        try:
            rerun(PlayedEpisode(0, config.seed, [], 0.0)).close()
        except RerunError as error:
            hint = _NO_RENDER_MODE if str(run.game).startswith(f"{PICKLE}:") else ""
            raise UsageError(f"There is no video: {error}{hint}") from None
    for title, one in zip(("", "Against "), subjects, strict=False):
        print(f"{title}{shortened(Path(one.checkpoint))}: {one.env_frames:,} frames of training.", flush=True)
    with usage_errors():
        episodes, failure = play_episodes(config, subjects)
    code = 0
    if episodes:
        summary = summarize(run, episodes)
        print(table(summary, environment_config.num_action_repeats, config.episodes_asked))
        code = write_results(output, results(config, subjects, episodes, failure))
        by_return = sorted(episodes, key=lambda episode: episode.episode_return)
        if not others:
            _show(subject, summary)
        if config.record:
            best, typical = by_return[-1], by_return[len(by_return) // 2]
            code = _record(Path(config.record), lambda: (rerun(best), rerun(typical))) or code
    if failure:
        complain(failure)
        return 1
    return code


def _show(subject: Subject, summary: dict[str, Any]) -> None:
    """Adds the evaluation to TensorBoard."""
    from seed_rl.evaluation.report import write_board

    try:
        write_board(subject.run.logdir, subject.env_frames, summary)
    except OSError as error:
        print(f"Nothing in TensorBoard: {reason(error)}.")


def _record(path: Path, reruns: "Callable[[], tuple[Rerun, Rerun]]") -> int:
    """Writes the video of the best episode and a typical one; returns the exit code."""
    from seed_rl.evaluation.video import RerunError, write_video

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        best, typical = reruns()
        with contextlib.closing(best), contextlib.closing(typical):
            write_video(path, [("best", best), ("typical", typical)])
    except RerunError as error:
        complain(f"There is no video: {error}")
        return USAGE_EXIT_CODE
    except (OSError, ValueError, RuntimeError) as error:  # Also what imageio and its encoders raise.
        complain(f"{path} cannot be written ({reason(error)}).")
        return 1
    print(f"Video of the best episode and a typical one: {shortened(path)}")
    if not (best.is_faithful and typical.is_faithful):
        print("The environment does not reproduce an episode from its seed: the video shows other episodes.")
    return 0


if __name__ == "__main__":
    report_answer(EvaluateConfig, _answer)
