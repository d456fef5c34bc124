"""The trials of a sweep, kept in an Optuna study: what is drawn, how the runs ended, and what is left.

An Optuna trial cannot change once it is finished. So a trial that gets more seeds, or whose failed runs are
retried, becomes a new Optuna trial with the same values: the attribute `trial` has the number of the sweep's
trial, and the newest counts.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from seed_rl.sweeps.outcome import Outcome
from seed_rl.sweeps.space import Space, Value

_SAMPLERS: dict[str, Any] = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
_SEED = "seed_"
# A return is reported to the pruner at each twentieth of a run, and no trial is pruned in its first quarter.
_REPORTS = 20
_WARMUP = 5

optuna.logging.set_verbosity(optuna.logging.WARNING)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna's distributions, by flag."""
    found: dict[str, BaseDistribution] = {}
    for name, parameter in space.parameters.items():
        if parameter.kind == "choice":
            found[name] = CategoricalDistribution(parameter.values)
        elif parameter.kind == "int_uniform":
            first, last = map(int, parameter.values)
            found[name] = IntDistribution(first, last)
        else:
            low, high = map(float, parameter.values)
            found[name] = FloatDistribution(low, high, log=parameter.kind == "log_uniform")
    return found


def draw(
    space: Space, sweep_seed: int, trial: int, sampler: str = "random", earlier: Sequence[FrozenTrial] = ()
) -> dict[str, Value]:
    """The values of a trial, by flag.

    They depend on nothing but the arguments, and with the sampler `random` not on the earlier trials, either.
    """
    seed = int(np.random.SeedSequence([sweep_seed, trial]).generate_state(1)[0])
    study = optuna.create_study(direction="maximize", sampler=_SAMPLERS[sampler](seed=seed))
    study.add_trials(earlier)
    return study.ask(distributions(space)).params


def make_pruner(name: str, total_frames: int) -> optuna.pruners.BasePruner:
    """The pruner `none` or `median` for runs of this many environment frames."""
    if name == "none":
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(n_warmup_steps=_WARMUP * max(1, total_frames // _REPORTS))


def latest(study: optuna.Study) -> dict[int, FrozenTrial]:
    """The trials of the sweep, by number, in ascending order."""
    newest = {trial.user_attrs["trial"]: trial for trial in study.get_trials(deepcopy=False)}
    return dict(sorted(newest.items()))


def outcomes(trial: FrozenTrial) -> dict[int, Outcome]:
    """How the runs of a trial ended, by seed."""
    found = {name: value for name, value in trial.user_attrs.items() if name.startswith(_SEED) and value}
    return {int(name.removeprefix(_SEED)): Outcome(**value) for name, value in found.items()}


class Trials:
    """The trials that a command asks for, each with the seeds from 1 to `seeds`.

    Attributes:
      trials: their number.
      seeds: the number of runs per trial.
    """

    def __init__(self, study: optuna.Study, trials: int, seeds: int):
        """Reads and writes nothing yet."""
        self.study = study
        self.trials = trials
        self.seeds = seeds

    def left(self, retry_failed: bool = False) -> list[tuple[int, int]]:
        """The runs that have not ended, as trial and seed, in the order in which they start."""
        there = latest(self.study)
        missing: list[tuple[int, int]] = []
        for number in range(1, self.trials + 1):
            trial = there.get(number)
            if trial is None or trial.state != TrialState.PRUNED:
                ended = _kept(trial, retry_failed) if trial else {}
                missing += [(number, seed) for seed in range(1, self.seeds + 1) if seed not in ended]
        return missing

    def failed(self) -> int:
        """The number of runs that failed."""
        asked = [trial for number, trial in latest(self.study).items() if number <= self.trials]
        return sum(outcome.failed for trial in asked for outcome in outcomes(trial).values())

    def reopen(self, retry_failed: bool) -> None:
        """Prepares the trials for this session: those that have got more runs to play are running again."""
        left = {number for number, _ in self.left(retry_failed)}
        for number, trial in latest(self.study).items():
            kept = _kept(trial, retry_failed)
            if number in left and trial.state.is_finished():
                self._add(number, trial.params, trial.distributions, kept)
            elif number in left:
                for seed in set(outcomes(trial)) - set(kept):
                    self._open(trial).set_user_attr(f"{_SEED}{seed}", None)
            elif number <= self.trials:
                self._settle(number)

    def values(self, number: int, space: Space, sweep_seed: int, sampler: str) -> dict[str, Value]:
        """The values of a trial, by flag; they are drawn and recorded if it is new."""
        values = self.peek(number, space, sweep_seed, sampler)
        if number not in latest(self.study):
            self._add(number, values, distributions(space), {})
        return values

    def peek(self, number: int, space: Space, sweep_seed: int, sampler: str = "random") -> dict[str, Value]:
        """The values of a trial as `values` returns them; records nothing."""
        known = latest(self.study).get(number)
        if known:
            return known.params
        return draw(space, sweep_seed, number, sampler, self.study.get_trials(deepcopy=False))

    def is_finished(self, number: int) -> bool:
        """Whether a trial has ended: all of its runs have, or it was pruned."""
        return latest(self.study)[number].state.is_finished()

    def report(self, number: int, curve: Sequence[tuple[int, float]], total_frames: int) -> bool:
        """Reports the returns of a trial's first run so far; returns whether the trial is to be pruned.

        `curve` has the environment frames and the mean return of each period, in ascending order of frames.
        What the study knows already is left out.
        """
        trial = latest(self.study)[number]
        interval, done = max(1, total_frames // _REPORTS), trial.last_step or 0
        last = min(curve[-1][0], total_frames) // interval if curve else 0
        handle = self._open(trial)
        for step in range(done + interval, last * interval + 1, interval):
            known = [value for frames, value in curve if frames <= step]
            if known:
                handle.report(known[-1], step)
                if handle.should_prune():
                    return True
        return False

    def prune(self, number: int) -> None:
        """Ends a trial as pruned; its value is the last return that was reported."""
        self.study.tell(latest(self.study)[number].number, state=TrialState.PRUNED)

    def record(self, number: int, seed: int, outcome: Outcome) -> None:
        """Records how a run ended, and ends the trial with its last one."""
        trial = self._open(latest(self.study)[number])
        trial.set_user_attr(f"{_SEED}{seed}", dataclasses.asdict(outcome))
        self._settle(number)

    def _settle(self, number: int) -> None:
        """Ends a trial whose runs have all ended, with the mean of their returns."""
        trial = latest(self.study)[number]
        ended = outcomes(trial)
        if trial.state.is_finished() or not all(seed in ended for seed in range(1, self.seeds + 1)):
            return
        mean, _ = final_return(trial)
        self.study.tell(trial.number, mean, TrialState.FAIL if mean is None else TrialState.COMPLETE)

    def _open(self, trial: FrozenTrial) -> optuna.Trial:
        return optuna.Trial(self.study, trial._trial_id)

    def _add(
        self,
        number: int,
        values: dict[str, Value],
        ranges: dict[str, BaseDistribution],
        ended: dict[int, Outcome],
    ) -> None:
        """Adds a running trial, as one line of the journal."""
        known = {f"{_SEED}{seed}": dataclasses.asdict(outcome) for seed, outcome in ended.items()}
        self.study.add_trial(
            optuna.create_trial(
                state=TrialState.RUNNING,
                params=values,
                distributions=ranges,
                user_attrs={"trial": number, **known},
            )
        )


def final_return(trial: FrozenTrial) -> tuple[float | None, float | None]:
    """The mean of a trial's final returns and its standard error; None for too few, which are one and two."""
    returns = [end.final_return for end in outcomes(trial).values() if end.final_return is not None]
    error = statistics.stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else None
    return statistics.fmean(returns) if returns else None, error


def _kept(trial: FrozenTrial, retry_failed: bool) -> dict[int, Outcome]:
    """The outcomes that count when failed runs are or are not retried, by seed."""
    return {seed: found for seed, found in outcomes(trial).items() if not (found.failed and retry_failed)}
