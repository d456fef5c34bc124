r"""Evaluates a run's trained agent: prints its scores, writes JSON, and records a video if asked.

Examples:
  seed_rl evaluate runs/atari_vtrace_Pong --episodes=100
  seed_rl evaluate runs/atari_vtrace_Pong --checkpoint=best --record=pong.mp4
  seed_rl evaluate runs/atari_dqn_Pong --checkpoint=kept --max_agent_steps=125000 --num_envs=4

The agent and the environment are rebuilt from the run directory's record. Episodes follow the paper's
protocol: Atari games with 1 to 30 no-ops and at most 108,000 frames, R2D2 with an epsilon of 1e-3.

Exit codes: 0 when all episodes were played, 2 if a flag is wrong or the environment makes no video, 130 after
Ctrl-C, 143 after SIGTERM, 1 otherwise. If an environment fails too often, the episodes that ended before are
reported all the same.
"""

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from seed_rl.environments.base import PICKLE
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.evaluation.subject import Subject, SubjectConfig, load_subject
from seed_rl.files import shortened, write_atomically
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError, require_package, usage_errors
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, reason, report_to_launcher, say
from seed_rl.options import option, part
from seed_rl.runs.layout import RunDirectory
from seed_rl.seeds import LARGEST_SEED

if TYPE_CHECKING:
    from seed_rl.evaluation.episodes import PlayedEpisode
    from seed_rl.evaluation.video import Rerun

# Seconds between lines with the number of episodes that have ended, without a terminal; later, a tenth of
# the time since the start.
_SILENT_SECS = 5.0

_EPISODES = 200
_KEPT = "kept"


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(SubjectConfig):
    """Checkpoint to evaluate, number of episodes, and files for the results."""

    checkpoint: str = option(
        "last",
        "The checkpoint: last, best (by the run's own mean return), or a path prefix such as .../ckpt-1200. "
        "kept: each of those of --keep_checkpoint_every_agent_steps, unless it has results already.",
        is_path=True,
    )
    episodes: int | None = option(
        None,
        "Number of episodes to play; by default 200, or with --max_agent_steps as many as end within them.",
        at_least=1,
    )
    max_agent_steps: int | None = option(
        None,
        "Most agent steps to play, of all environments together; episodes that have not ended do not count.",
        at_least=1,
    )
    num_envs: int = option(16, "Number of environments played at the same time.", at_least=1)
    greedy: bool = option(
        False,
        "Take the best action at every step. By default V-trace samples from its policy, and R2D2 explores "
        "with the run's --eval_epsilon (paper: 1e-3).",
    )
    seed: int = option(
        1,
        "Seed of the evaluation; each episode derives its own from this and its number.",
        at_least=0,
        at_most=LARGEST_SEED,
    )
    output: str | None = option(
        None,
        "JSON file for the results; by default evaluations/ckpt-UPDATES.json in the run directory.",
        is_path=True,
    )
    record: str | None = option(
        None,
        "Video file, .mp4 or .gif, with the best and a typical (median) episode. Needs the extra [record].",
        is_path=True,
    )
    overwrite: bool = option(False, "Overwrite results and videos that already exist.")
    failures: FailureConfig = part(FailureConfig)

    @property
    def episodes_asked(self) -> int | None:
        """Number of episodes to play; None: as many as `max_agent_steps` allows."""
        return self.episodes or (None if self.max_agent_steps else _EPISODES)

    def validate(self) -> None:
        """Checks that the video's name ends in a supported format, and that files are of one checkpoint."""
        if self.checkpoint == _KEPT and (self.output or self.record):
            raise ValueError(
                f"--checkpoint={_KEPT} evaluates several checkpoints, and --output and --record name a file "
                "for one; leave them out."
            )
        if self.record is not None and not self.record.endswith((".mp4", ".gif")):
            raise ValueError(
                f"--record={self.record} has no supported format; its name must end in .mp4 or .gif."
            )


def main(argv: list[str]) -> int:
    """Runs an evaluation; returns its exit code."""
    config, _ = parse_options(argv, __doc__ or "", EvaluateConfig, positional=("logdir",))
    paths = {name: getattr(config, name) for name in ("logdir", "output", "record")}
    absolute = {name: os.path.abspath(path) for name, path in paths.items() if path}
    config = dataclasses.replace(config, **absolute)  # Environments that change the directory play here.
    require_package("tensorflow", "learner")
    if config.record:
        require_package("imageio_ffmpeg", "record")
        check_output(Path(config.record), "record", config.overwrite)
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl evaluate RUN_DIRECTORY.")
    if config.checkpoint != _KEPT:
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


def _evaluate(config: EvaluateConfig) -> int:
    """Evaluates one checkpoint; returns the exit code."""
    with quiet_start(), usage_errors():
        subject = rebuilt(config)
    run, trained = subject.run, subject.trained
    default = RunDirectory(run.logdir).evaluation(trained.checkpoint)
    output = Path(config.output) if config.output else default
    check_output(output, "output", config.overwrite)
    if config.record:
        _check_rendering(config, subject)
    print(f"{shortened(Path(trained.checkpoint))}: {trained.env_frames:,} frames of training.", flush=True)
    with usage_errors():
        episodes, failure = play_episodes(config, subject)
    if not (episodes or failure):
        steps = config.max_agent_steps
        failure = f"No episode ended within --max_agent_steps={steps}; raise it, or lower --num_envs."
    code = _report(config, subject, episodes, failure, output) if episodes else 0
    if failure:
        complain(failure)
        return 1
    return code


def rebuilt(config: EvaluateConfig) -> Subject:
    """The policy and environments to evaluate; raises as `load_subject`."""
    return load_subject(
        str(config.logdir),
        config.checkpoint,
        trust_code=config.trust_code,
        seed=config.seed,
        failures=config.failures,
    )


def command(config: EvaluateConfig) -> list[str]:
    """The command of a process that evaluates, writes nothing, and reports results or a sentence as JSON."""
    return [sys.executable, "-m", "seed_rl.commands.evaluate", json.dumps(config.to_dict())]


def _report_results(settings: str) -> NoReturn:
    """Evaluates as `command` does."""
    try:
        config = EvaluateConfig.of(**json.loads(settings))
        with quiet_start(), usage_errors():
            subject = rebuilt(config)
        episodes, failure = play_episodes(config, subject)
        if episodes:
            answer = results(config, subject, episodes, failure)
        else:
            why = failure or f"max_agent_steps={config.max_agent_steps} are too few."
            answer = {"kind": "failure", "sentence": f"No episode was played to its end: {why}"}
    except UsageError as error:
        answer = {"kind": "usage", "sentence": str(error)}
    report_to_launcher(json.dumps(answer).encode())
    os._exit(0)  # Threads and exit handlers of environments do not matter.


def play_episodes(config: EvaluateConfig, subject: Subject) -> "tuple[list[PlayedEpisode], str | None]":
    """The episodes in the order of their numbers, and the reason if there are fewer than requested."""
    import tqdm

    from seed_rl.evaluation.agent import play

    played = play(
        subject.suite,
        subject.environment_config,
        subject.trained.policy,
        env_id=subject.evaluation_env_id,
        episodes=config.episodes_asked or sys.maxsize,
        num_envs=config.num_envs,
        greedy=config.greedy,
        seed=config.seed,
        tolerance=config.failures,
        max_agent_steps=config.max_agent_steps,
    )
    episodes: list[PlayedEpisode] = []
    total, start = 0.0, time.monotonic()
    due = start + _SILENT_SECS
    asked = config.episodes_asked
    with tqdm.tqdm(total=asked, unit=" episodes", dynamic_ncols=True, disable=None) as bar:
        try:
            for episode in played:
                episodes.append(episode)
                total += episode.episode_return
                bar.update()
                mean_return = f"mean return {total / len(episodes):.2f}"
                bar.set_postfix_str(mean_return, refresh=False)
                if bar.disable and (now := time.monotonic()) >= due:  # In a file or a pipe.
                    of = "" if asked is None else f" of {asked}"
                    say(f"{len(episodes)}{of} episodes, {mean_return}.")
                    due = now + max(_SILENT_SECS, (now - start) / 10)
        except EnvironmentFailedError as error:
            return sorted(episodes), str(error)
    return sorted(episodes), None


def results(
    config: EvaluateConfig, subject: Subject, episodes: "Sequence[PlayedEpisode]", failure: str | None
) -> dict[str, Any]:
    """The contents of the JSON file: the statistics, every episode, and what was evaluated."""
    from seed_rl.evaluation.report import summarize

    run, trained = subject.run, subject.trained
    return {
        "run": str(run.logdir),
        "checkpoint": trained.checkpoint,
        "env_frames": trained.env_frames,
        "training_seconds": trained.seconds,
        "policy": "greedy" if config.greedy else "as the agent evaluates",
        "seed": config.seed,
        "environment": {"name": run.environment, "settings": subject.environment_config.to_dict()},
        "agent": run.agent,
        "versions": run.versions,
        **summarize(run, episodes),
        "episodes_asked": config.episodes_asked,
        "max_agent_steps": config.max_agent_steps,
        "failure": failure,
        "seeds": [episode.seed for episode in episodes],
        "returns": [episode.episode_return for episode in episodes],
        "episode_agent_steps": [episode.agent_steps for episode in episodes],
    }


def _report(
    config: EvaluateConfig,
    subject: Subject,
    episodes: "Sequence[PlayedEpisode]",
    failure: str | None,
    output: Path,
) -> int:
    """Prints the table; writes the JSON file, the TensorBoard events and the video; returns the exit code."""
    from seed_rl.evaluation.report import summarize, table

    summary = summarize(subject.run, episodes)
    print(table(summary, subject.environment_config.num_action_repeats, config.episodes_asked))
    code = 0
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, json.dumps(results(config, subject, episodes, failure), indent=2) + "\n")
        print(f"Results: {shortened(output)}")
    except OSError as error:
        complain(f"{output} cannot be written ({reason(error)}).")
        code = 1
    by_return = sorted(episodes, key=lambda episode: episode.episode_return)
    best, typical = by_return[-1], by_return[len(by_return) // 2]
    _show(config, subject, summary, best)
    if config.record:
        code = _record(config, subject, [("best", best), ("typical", typical)], Path(config.record)) or code
    return code


def _rerun(config: EvaluateConfig, subject: Subject, episode: "PlayedEpisode") -> "Rerun":
    """Plays an episode again, for its pictures."""
    from seed_rl.evaluation.video import Rerun

    return Rerun(subject.suite, subject.environment_config, episode, config.failures)


def _check_rendering(config: EvaluateConfig, subject: Subject) -> None:
    """Renders an environment once; raises UsageError if that fails."""
    from seed_rl.evaluation.episodes import PlayedEpisode
    from seed_rl.evaluation.video import RerunError, retried

    nothing = PlayedEpisode(0, config.seed, [], 0.0)
    try:
        retried(lambda: _rerun(config, subject, nothing), config.failures).close()
    except RerunError as error:
        is_function = str(subject.run.game).startswith(f"{PICKLE}:")
        hint = (
            ""
            if not is_function
            else (
                " Let the function take render_mode and pass it on, such as lambda render_mode=None: "
                "gymnasium.make(ID, render_mode=render_mode)."
            )
        )
        raise UsageError(f"There is no video: {error}{hint}") from None


def _show(
    config: EvaluateConfig, subject: Subject, summary: dict[str, Any], episode: "PlayedEpisode"
) -> None:
    """Adds the evaluation to TensorBoard, with scenes of an episode if the environment can be rendered."""
    from seed_rl.evaluation.report import write_board
    from seed_rl.evaluation.video import RerunError, montage, retried

    picture = None
    try:
        picture = retried(lambda: montage(_rerun(config, subject, episode)), config.failures)
    except RerunError as error:
        print(f"TensorBoard gets no picture of gameplay. {error}")
    try:
        write_board(subject.run.logdir, subject.trained.env_frames, summary, picture)
    except OSError as error:
        print(f"Nothing in TensorBoard: {reason(error)}.")


def _record(
    config: EvaluateConfig, subject: Subject, episodes: "list[tuple[str, PlayedEpisode]]", path: Path
) -> int:
    """Writes the video; returns the exit code."""
    from seed_rl.evaluation.video import RerunError, retried, write_video

    def write() -> bool:
        with contextlib.ExitStack() as stack:
            reruns = [
                (title, stack.enter_context(closing(_rerun(config, subject, one)))) for title, one in episodes
            ]
            write_video(path, reruns)
            return all(rerun.is_faithful for _, rerun in reruns)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_faithful = retried(write, config.failures)
    except RerunError as error:
        complain(f"There is no video: {error}")
        return USAGE_EXIT_CODE
    except (OSError, ValueError, RuntimeError) as error:  # Also what imageio and its encoders raise.
        complain(f"{path} cannot be written ({reason(error)}).")
        return 1
    print(f"Video of the best episode and a typical one: {shortened(path)}")
    if not is_faithful:
        print("The environment does not reproduce an episode from its seed: the video shows other episodes.")
    return 0


if __name__ == "__main__":
    _report_results(sys.argv[1])
