"""Run directories as the learner writes them, with made-up curves."""

import json
import math

import numpy as np

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.metrics.curves import Curve
from seed_rl.plotting.groups import RunCurve, RunGroup, group_records
from seed_rl.runs import record
from seed_rl.runs.record import RunRecord


def write_run(
    path,
    game="Pong",
    agent="vtrace",
    seed=1,
    periods=60,
    frames=2_000_000,
    seconds=1800.0,
    lowest=-20.0,
    highest=20.0,
    metrics=True,
    evaluation=False,
    learner=None,
    environment="atari",
    **settings,
):
    """Writes run.json and, if `metrics`, metrics.jsonl; returns the directory.

    There are 1000 updates. The return climbs from `lowest` to `highest`; seeds differ in their noise and in
    when they climb.
    """
    game_setting = {} if game is None else {"game": game}
    environment_config = environments.suite(environment).config_class(**game_setting)
    agent_config = algorithms.config_class(agent).of(**settings)
    learner_config = LearnerConfig(logdir=str(path), seed=seed, **(learner or {}))
    record.write(
        str(path),
        record.run_identity(environment, environment_config, agent, agent_config),
        {"agent": agent_config.to_dict(), "learner": learner_config.to_dict()},
    )
    if not metrics:
        return path
    rng = np.random.default_rng([seed, len(game or ""), len(agent)])
    middle, noise = rng.uniform(0.25, 0.5), 0.0
    lines = []
    for i in range(1, periods + 1):
        share, noise = i / periods, 0.8 * noise + 0.02 * rng.normal()
        climbed = 1 / (1 + math.exp(-12 * (share - middle))) + noise
        value = lowest + (highest - lowest) * climbed
        figures = {
            "env_frames": int(frames * share),
            "seconds": seconds * share,
            "updates": int(1000 * share),
            "entropy": 1.8 - share,
            "inference_latency_p50_ms": 4.0 + noise,
        }
        if i > 1:
            figures["mean_return"] = value
            if evaluation:
                figures["mean_evaluation_return"] = value + 0.01 * (highest - lowest)
        lines.append(json.dumps(figures))
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return path


def make_record(name="run", game="Pong", agent="vtrace", environment="atari", learner=None, **settings):
    """A record in memory; `settings` are the agent's, with defaults for those left out."""
    content = record.completed(
        {
            "identity": {
                "environment": {"name": environment, "settings": {} if game is None else {"game": game}},
                "agent": {"name": agent, "network": {}},
            },
            "settings": {"agent": settings, "learner": {"logdir": name, **(learner or {})}},
        }
    )
    agent_settings, learner_settings = content["settings"]["agent"], content["settings"]["learner"]
    return RunRecord(name, content["identity"], agent_settings, learner_settings, {})


def make_curve(frames, values, seconds=None):
    """A curve; seconds are a thousandth of the frames unless given."""
    frames = np.asarray(frames, np.float64)
    return Curve(frames, frames / 1000 if seconds is None else np.asarray(seconds), np.asarray(values, float))


def make_groups(*runs, metrics=None):
    """Groups of runs (record, curve, source); `metrics` by agent."""
    by_record = {id(record): RunCurve(record, *more) for record, *more in runs}
    return [
        RunGroup(
            task,
            variant,
            (metrics or {}).get(alike[0].agent, "mean_return"),
            tuple(by_record[id(record)] for record in alike),
        )
        for (task, variant), alike in group_records([record for record, *_ in runs]).items()
    ]
