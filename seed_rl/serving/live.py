"""The live page of a run: what a browser shows of it while it trains, as JSON. No TensorFlow.

A page opens a WebSocket and gets text frames, each an object with some of the keys `hello`, `cells`,
`actors`, `curves`, `stages`, `findings` and `note`.
"""

import asyncio
import base64
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np

from seed_rl.metrics.bottlenecks import findings, medians, stages
from seed_rl.metrics.curves import periods_so_far
from seed_rl.serving.connection import Refusal, failure, refuse
from seed_rl.types import ACTION_MASK, AgentOutput, EnvironmentSpec, flatten_spec
from seed_rl.wire.codec import StepCodec

# In place of a service's name, for the listener.
SERVICE = "live"

_ACTORS_SECS = 1.0
# Between two looks at the metrics; and the part of the time, at most, that reading them may take.
_METRICS_SECS, _METRICS_SHARE = 2.0, 0.005
_LAST_FRAMES_SECS = 2.0  # For pages to read the last ones.
_MOST_PAGES = 16
_MOST_CELLS = 8
_MOST_POINTS = 300
_MOST_BARS = 32
_MOST_PIXELS = 160  # In a row or column of a picture.
_LEAST_PIXELS = 3
_MOST_PLANES = 4  # That may come first.
_CURVES = ("mean_return", "mean_evaluation_return", "frames_per_second", "loss", "entropy")
# Of planes of an observation that are not red, green and blue.
_COLOURS = np.array([0xE69F00, 0x56B4E9, 0x009E73, 0xF0E442, 0x0072B2, 0xD55E00, 0xCC79A7], ">u4")
_COLOURS = _COLOURS.view(np.uint8).reshape(-1, 4)[:, 1:]


class _Cell(NamedTuple):
    """An environment as inference has last seen it: its record, and the answer to it."""

    at: float
    record: np.ndarray
    action: np.ndarray
    info: dict[str, np.ndarray]
    episode_return: float | None  # None: the page has not been open since the episode's first step.
    agent_steps: int | None


class Live:
    """The live page of a run. Inference threads call `see`, and the event loop the rest.

    Attributes:
      actors: gives facts about each actor that is connected; see `Connections.described`.
      hello: the first frame of a page.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        spec: EnvironmentSpec,
        logdir: str | Path,
        settings: Mapping[str, Any],
        num_training_envs: int = 0,
        period_secs: float = 0.2,
    ):
        """Prepares.

        Args:
          about: the names and figures in the head of the page.
          spec: of the environments.
          logdir: the run's directory, whose metrics become curves.
          settings: of the learner and the agent, by name, for the bottleneck.
          num_training_envs: environments with ids from here on only evaluate.
          period_secs: shortest time between two pictures of an environment.
        """
        self.actors: Callable[[], list[dict[str, Any]]] = list
        action = spec.action
        self._num_actions = action.num_values[0] if action.is_discrete and action.shape == () else None
        self.hello = {"num_players": spec.num_players, "actions": self._num_actions, "plays": False, **about}
        self._spec, self._codec, self._leaves = spec, StepCodec(spec), flatten_spec(spec.observation)
        self._logdir, self._settings, self._num_training_envs = logdir, settings, num_training_envs
        self._period_secs = period_secs
        self._pages: set[asyncio.Future[Any]] = set()
        self._is_shown = np.zeros(0, bool)  # By environment id.
        self._cells: dict[int, _Cell] = {}
        self._before: dict[int, tuple[float, int]] = {}  # By task: when, and agent steps by then.
        self._said: dict[str, tuple[float, str]] = {}  # By kind of frame: until when, and the frame.
        self._metrics: dict[str, Any] = {}
        self._next_metrics = 0.0
        self._kinds: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {
            "metrics": (_METRICS_SECS, lambda: self._metrics),
            "actors": (_ACTORS_SECS, self._described_actors),
            "cells": (period_secs, self._described_cells),
        }
        self._reading = asyncio.Lock()
        self._end: tuple[str] | None = None

    # Inference.

    def see(self, env_ids: np.ndarray, records: np.ndarray, output: AgentOutput) -> AgentOutput:
        """Notes what a batch `[B]` shows of the environments on the page; returns the output as it is.

        Does nothing while no page is open.
        """
        shown = self._is_shown
        if len(shown):
            now = time.monotonic()
            for place in np.flatnonzero(shown[np.minimum(env_ids, len(shown) - 1)]).tolist():
                self._note(int(env_ids[place]), records[place], output, place, now)
        return output

    def _note(self, env_id: int, record: np.ndarray, output: AgentOutput, place: int, now: float) -> None:
        if record["done"] and record["truncated"]:
            return  # The player is not to move.
        cell = self._cells.get(env_id)
        total, steps = (cell.episode_return, cell.agent_steps) if cell else (None, None)
        if record["done"]:
            total, steps = 0.0, 0
        elif total is not None and steps is not None:
            total, steps = total + float(record["reward"]), steps + 1
        if cell is None or now - cell.at >= self._period_secs:
            info = {name: np.array(array[place]) for name, array in output.info.items()}
            cell = _Cell(now, record.copy(), np.array(output.action[place]), info, total, steps)
        self._cells[env_id] = cell._replace(episode_return=total, agent_steps=steps)

    # Pages.

    async def answer(self, requests: Any, context: Any) -> None:
        """Serves a page until it or the run ends. Its frames are as many as it reads, so none pile up."""
        del requests
        if len(self._pages) >= _MOST_PAGES:
            sentence = f"{_MOST_PAGES} pages show this run already; close one of them."
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence)
        jobs = [asyncio.ensure_future(job) for job in (self._send(context), self._listen(context))]
        self._pages.add(jobs[0])
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pages.discard(jobs[0])
            self._left(context)
            for job in jobs:
                job.cancel()
            ended = await asyncio.gather(*jobs, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                refusal = error if isinstance(error, Refusal) else failure(error)
                await context.abort(refusal.code, str(refusal))
        if self._end and self._end[0]:
            await context.abort(grpc.StatusCode.UNAVAILABLE, self._end[0])

    async def end(self, reason: str) -> None:
        """Ends all pages.

        Args:
          reason: empty if training is complete; otherwise why the server stops for now.
        """
        self._end = (reason,)
        if self._pages:
            await asyncio.wait(self._pages, timeout=_LAST_FRAMES_SECS)

    async def _send(self, context: Any) -> None:
        await context.write(json.dumps({"hello": self.hello, "note": self.hello.get("note", "")}))
        sent: dict[str, str] = {}
        is_over = False
        while not is_over:
            is_over = self._end is not None
            await self._read_metrics(is_over)
            for kind, (seconds, describe) in self._kinds.items():
                frame = self._frame(kind, seconds, describe)
                if frame is not sent.get(kind):
                    sent[kind] = frame
                    await context.write(frame)
            await asyncio.sleep(self._period_secs)

    async def _listen(self, context: Any) -> None:
        while (said := await context.read()) is not grpc.aio.EOF:
            try:
                order = json.loads(said)
            except ValueError:
                order = None
            if not isinstance(order, dict):
                refuse("A page sends JSON objects, as text.")
            self._obey(order, context)

    def _obey(self, order: dict[str, Any], page: Any) -> None:
        """Does what a page asks for, or raises Refusal."""
        refuse("Nobody can play here; open the page of a trained policy: seed_rl watch RUN.")

    def _left(self, page: Any) -> None:
        """Notes that a page has closed."""
        if not self._pages:
            self._is_shown, self._cells = np.zeros(0, bool), {}

    def _frame(self, kind: str, seconds: float, describe: Callable[[], dict[str, Any]]) -> str:
        """A frame of one kind, which all pages share for a while."""
        until, frame = self._said.get(kind, (0.0, ""))
        if time.monotonic() >= until:
            new = json.dumps(describe())
            frame = frame if frame == new else new
            self._said[kind] = time.monotonic() + 0.9 * seconds, frame
        return frame

    async def _read_metrics(self, is_last: bool) -> None:
        """Reads the metrics again if that is due."""
        async with self._reading:
            begin = time.monotonic()
            if begin < self._next_metrics and not is_last:
                return
            self._metrics = await asyncio.to_thread(_of_periods, self._logdir, self._settings)
            self._said.pop("metrics", None)
            now = time.monotonic()
            self._next_metrics = now + max(_METRICS_SECS, (now - begin) / _METRICS_SHARE)

    def _described_actors(self) -> dict[str, Any]:
        """The actors with their speeds; chooses the environments to show, evenly among theirs."""
        actors, now, before = self.actors(), time.monotonic(), self._before
        self._before = {actor["task"]: (now, actor["agent_steps"]) for actor in actors}
        for actor in actors:
            since, steps = before.get(actor["task"], (now, 0))
            done = max(0, actor.pop("agent_steps") - steps)
            actor["agent_steps_per_second"] = done / (now - since) if now > since else None
        players = self._spec.num_players
        games = [env for actor in actors for env in range(actor["envs"][0], sum(actor["envs"]), players)]
        chosen = np.linspace(0, len(games) - 1, min(len(games), max(1, _MOST_CELLS // players)))
        shown = sorted({games[round(place)] + player for place in chosen for player in range(players)})
        # One more, which is none's: the ids of others fall on it.
        is_shown = np.zeros(max(shown, default=-1) + 2, bool)
        is_shown[shown] = True
        self._cells = {env_id: cell for env_id, cell in list(self._cells.items()) if env_id in shown}
        self._is_shown = is_shown
        return {"actors": actors}

    def _described_cells(self) -> dict[str, Any]:
        return {"cells": [self._described(env_id, cell) for env_id, cell in sorted(self._cells.items())]}

    def _described(self, env_id: int, cell: _Cell) -> dict[str, Any]:
        observation = self._observation(cell.record)
        found = observation.pop(ACTION_MASK, None)
        leaves, mask = list(observation.values()), None if found is None else found.astype(bool).tolist()
        pictures = [picture for leaf in leaves if (picture := _picture(leaf)) is not None]
        bars = [float(x) for leaf in leaves for x in leaf.ravel()[:_MOST_BARS]][:_MOST_BARS]
        players = self._spec.num_players
        return {
            "env": env_id,
            "player": env_id % players if players > 1 else None,
            "evaluates": env_id >= self._num_training_envs,
            "image": pictures[0] if pictures else None,
            "bars": None if pictures else bars,
            "mask": mask,
            "action": cell.action.tolist(),
            "return": cell.episode_return,
            "agent_steps": cell.agent_steps,
            **self._judged(cell.info, mask),
        }

    def _observation(self, record: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a record by name, as the environment gave them: bools, where these are packed."""
        found = {}
        for name, spec in self._leaves:
            values = record[f"observation:{name}"]
            if spec.bits is not None:
                values = np.unpackbits(values, count=math.prod(spec.bits)).reshape(spec.bits)
            found[name] = values
        return found

    def _judged(self, info: Mapping[str, np.ndarray], mask: Sequence[bool] | None) -> dict[str, Any]:
        """The policy's probabilities or Q-values of discrete actions, and its value of the state."""
        scores, kind, value = None, None, info.get("baseline", info.get("q_value", math.nan))
        if "q_values" in info:
            scores, kind = info["q_values"], "Q-values"
            value = scores.max(where=np.array(mask or True), initial=-math.inf)
        elif "policy_parameters" in info and self._num_actions is not None:
            logits = info["policy_parameters"].astype(np.float64)
            scores, kind = np.exp(logits - logits.max()), "probabilities"
            scores /= scores.sum()
        return {
            "scores": None if scores is None else np.ravel(scores).tolist(),
            "kind": kind,
            "value": float(value) if np.ndim(value) == 0 and np.isfinite(value) else None,
        }


def _picture(values: np.ndarray) -> dict[str, Any] | None:
    """A picture, gray or in colours, of an observation; None if it is none.

    Its shape is `[height, width]`, `[height, width, planes]` or `[planes, height, width]`.
    """
    if values.ndim == 3 and values.shape[0] <= _MOST_PLANES < values.shape[2]:
        values = np.moveaxis(values, 0, 2)
    if values.ndim not in (2, 3) or min(values.shape[:2]) < _LEAST_PIXELS:
        return None
    step = -(-max(values.shape[:2]) // _MOST_PIXELS)
    values = values[::step, ::step].reshape(*values[::step, ::step].shape[:2], -1)
    if values.dtype != np.uint8 or values.max() <= 1:
        low, high = float(values.min()), float(values.max())
        values = (255 * (values.astype(np.float64) - low) / max(high - low, 1e-9)).astype(np.uint8)
    if (planes := values.shape[2]) not in (1, 3):
        colours = _COLOURS[np.arange(planes) % len(_COLOURS)]
        values = (values[..., np.newaxis] / 255 * colours).max(axis=2).astype(np.uint8)
    height, width, channels = values.shape
    data = base64.b64encode(values.tobytes()).decode()
    return {"height": height, "width": width, "channels": channels, "data": data}


def _of_periods(logdir: str | Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The curves of a run, and its stages with the bottleneck."""
    periods = periods_so_far(logdir)
    names = [*_CURVES, *sorted({name for period in periods for name in period if name.endswith("_loss")})]
    step = -(-len(periods) // _MOST_POINTS) or 1
    thinned = periods[::-1][::step][::-1]
    curves: dict[str, Any] = {key: [p[key] for p in thinned] for key in ("env_frames", "seconds")}
    curves["series"] = {
        name: [period.get(name) for period in thinned] for name in names if any(name in p for p in thinned)
    }
    found: dict[str, Any] = {"curves": curves, "stages": [], "findings": []}
    if (metrics := medians(periods)) is not None:
        found["stages"] = [{"name": name, "waits": waits, "for": why} for name, waits, why in stages(metrics)]
        found["findings"] = list(findings(metrics, settings).values())
    return found
