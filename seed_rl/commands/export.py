"""Writes the policy of a run's checkpoint for other programs: as a SavedModel, or as an ONNX model.

Examples:
  seed_rl export runs/atari_vtrace_Pong --format=onnx
  seed_rl export runs/atari_vtrace_Pong --checkpoint=best --output=best_policy

A learner writes the SavedModel at the end of training by itself. An ONNX model takes the best action at every
step. It is written only if ONNX Runtime computes the same with it as the policy does.
"""

import dataclasses
import os
from pathlib import Path

from seed_rl.evaluation.load import PlayConfig, Subject, SubjectConfig, load_subject
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import UsageError, require_package, usage_errors
from seed_rl.loading import quiet_start
from seed_rl.messages import reason
from seed_rl.options import option
from seed_rl.runs.layout import RunDirectory

_SAVED_MODEL, _ONNX = "saved_model", "onnx"


@dataclasses.dataclass(frozen=True)
class ExportConfig(SubjectConfig):
    """Policy to write, its format, and its path."""

    format: str = option(
        _SAVED_MODEL,
        "saved_model for TensorFlow, or onnx for ONNX Runtime and others, which needs the extra [onnx].",
        choices=(_SAVED_MODEL, _ONNX),
    )
    output: str | None = option(
        None,
        "Directory of the SavedModel, or file of the ONNX model; by default saved_model or policy.onnx in "
        "the run directory.",
        is_path=True,
    )
    overwrite: bool = option(False, "Overwrite an export that already exists.")


def main(argv: list[str]) -> int:
    """Exports a policy; returns the exit code."""
    config, _ = parse_options(argv, __doc__ or "", ExportConfig, positional=("logdir",))
    require_package("tensorflow", "learner")
    if config.format == _ONNX:
        for package in ("tf2onnx", "onnxruntime"):
            require_package(package, "onnx")
    if config.logdir is None:
        raise UsageError("No run is given; add its directory: seed_rl export RUN_DIRECTORY.")
    run = RunDirectory(Path(config.logdir))
    default = run.onnx if config.format == _ONNX else run.saved_model
    output = Path(config.output) if config.output else default
    _check(output, config)
    with quiet_start(), usage_errors():
        subject = load_subject(config.logdir, config.checkpoint, PlayConfig(trust_code=config.trust_code))
        checked = _write(config.format, subject, output)
    print(f"{subject.checkpoint}: {subject.env_frames:,} frames of training.\nPolicy: {output}{checked}")
    return 0


def _write(format: str, subject: Subject, output: Path) -> str:
    """Writes the policy; returns the text that follows its path. Raises UsageError, or ValueError of ONNX."""
    from seed_rl.training.checkpoint import WRITE_ERRORS
    from seed_rl.training.export import export_policy

    policy, spec = subject.policy, subject.probed.spec
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if format == _SAVED_MODEL:
            export_policy(policy, spec, str(output))
            return ""
        from seed_rl.training.export_onnx import export_onnx

        difference = export_onnx(policy, spec, subject.evaluation_env_id, output)
    except WRITE_ERRORS as error:
        raise UsageError(
            f"{output} cannot be written ({reason(error)}); name another place with --output."
        ) from error
    return f", in which ONNX Runtime agrees with TensorFlow to within {difference:.0e}"


def _check(output: Path, config: ExportConfig) -> None:
    """Checks that the output may be written, before any work; raises UsageError."""
    if config.format == _ONNX:
        check_output(output, "output", config.overwrite)
    elif os.path.lexists(output) and not config.overwrite:
        raise UsageError(
            f"{output} already exists; add --overwrite, or name another directory with --output."
        )
    elif os.path.lexists(output) and not (output / "saved_model.pb").is_file():
        raise UsageError(f"{output} is no SavedModel and is not overwritten; name another --output.")
