"""One fit of a comparison: the model under its budget, its samples, its likelihood, its time and memory."""

from __future__ import annotations

import copy
import inspect
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benthic.base.arrays import is_tensor
from benthic.base.catalogue import catalogue
from benthic.base.errors import NonFiniteLoss
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import derive, np_generator
from benthic.leaderboard.contest import keeping, resources
from benthic.leaderboard.contest.contestants import needs_labels
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.leaderboard.contest.records import Budget, Contestant, Outcome, Status

_GRACE = 1.0  # seconds over the budget that are no matter: building a network, drawing the first batch
_OVER = 1.25  # times the budget, from which on a fit is out of it
_BATCH = 128
_FIRST_ROWS = 16  # whose likelihood tells how long one takes
_LIKELY_ROWS = 1000
_LIKELY_SECONDS = 0.5  # that likelihoods may take at least, and else a twentieth of the budget
_NUMERIC = ("GaussianMixture", "PCA", "ContinuousFlow")  # whose densities know numbers only
_WIDE = 16  # columns, from which on the likelihood of a diffusion model is its bound


@dataclass(frozen=True)
class Job:
    """One contestant with one seed.

    form: in which it takes rows. folder: where its outcome is kept, under its key. patience: seconds that sampling and
    likelihoods may take each.
    """

    contestant: Contestant
    seed: int
    budget: Budget
    form: str
    folder: Path
    patience: float = 60.0

    @property
    def limit(self) -> float:
        """Seconds after which the fit is stopped."""
        return 2 * self.budget.amount + 10 if self.budget.kind == "seconds" else math.inf


class TimeUp(BaseException):
    """A part of a job took longer than it may; nothing but the job itself catches it."""


class Caught:
    """Keeps what a model raises instead of a result, whatever it is: a failed fit is a row of the table.

    >>> with Caught() as caught:
    ...     raise ValueError("no")
    >>> caught.text
    'ValueError: no'
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, (Exception, TimeUp)):
            self.error = error
            return True
        return False

    @property
    def text(self) -> str:
        """What was raised, in one line; empty if nothing was."""
        return in_a_line(self.error)


def in_a_line(error: BaseException | None) -> str:
    """An error as one line."""
    if error is None:
        return ""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0] if words else 'no message'}"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeUp`` in this block after so many seconds, where the system can (the main thread, not on Windows)."""
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not able or math.isinf(seconds):
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise TimeUp(f"it took longer than {seconds:.3g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- the job -----------------------------------------------------------------------------------------------


def do_job(job: Job, material: Material, split: Split, tell: Callable[[str], None] = lambda stage: None) -> Outcome:
    """Fit, sample and measure one contestant, and keep the outcome in its folder; tell: is told each stage."""
    outcome = Outcome(job.contestant.name, job.seed, folder=job.folder)
    job.folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _done(job, material, split, outcome, tell)
    keeping.write_outcome(outcome)
    return material.for_person(outcome)


def _done(job: Job, material: Material, split: Split, outcome: Outcome, tell: Callable[[str], None]) -> Outcome:
    model = prepared(job.contestant.model, job.budget, job.seed)
    X = material.give(split.fit_for(model), job.form)
    labels = split.fit_y if needs_labels(model) else None
    peak = resources.Peak()
    begun = time.perf_counter()
    with Caught() as caught, time_limit(job.limit):
        model = model.fit(X) if labels is None else model.fit(X, labels)
    outcome = replace(outcome, seconds=time.perf_counter() - begun, memory=peak.used())
    if caught.error is not None:
        return _ended(outcome, caught, job.budget)
    tell("sampling")
    outcome = replace(outcome, parameters=resources.parameters_of(model))
    outcome = _sampled(outcome, model, job, material, split)
    if outcome.samples is not None and labels is None:
        outcome = _likely(outcome, model, job, material, split)
    elif outcome.samples is not None:
        outcome = replace(outcome, no_likelihood="it is a model of rows given their labels")
    outcome = _in_budget(outcome, job.budget)
    keeping.save_model(model, job.folder)
    return outcome


def _ended(outcome: Outcome, caught: Caught, budget: Budget) -> Outcome:
    status: Status = "failed"
    reason = f"the fit failed: {caught.text}"
    if isinstance(caught.error, NonFiniteLoss):
        status, reason = "not finite", f"the loss became NaN or infinite: {caught.error}"
    if isinstance(caught.error, TimeUp):
        status, reason = "out of budget", f"the fit was stopped after {outcome.seconds:.3g} s of {budget}"
    return replace(outcome, status=status, reason=reason)


def _in_budget(outcome: Outcome, budget: Budget) -> Outcome:
    """The outcome, out of budget where the fit took more than it might."""
    if outcome.status != "ok":
        return outcome
    reason = ""
    if budget.kind == "seconds" and outcome.seconds > max(_OVER * budget.amount, budget.amount + _GRACE):
        reason = f"the fit took {outcome.seconds:.3g} s of {budget}"
    if budget.kind == "parameters" and outcome.parameters is not None and outcome.parameters > budget.amount:
        reason = f"it has {outcome.parameters:,} parameters of {budget}"
    return replace(outcome, status="out of budget", reason=reason) if reason else outcome


def prepared(model: Any, budget: Budget, seed: int) -> Any:
    """An unfitted copy with the seed and the budget set."""
    from sklearn.base import clone

    if not hasattr(model, "get_params"):
        made = copy.deepcopy(model)
        if hasattr(made, "random_state"):
            made.random_state = seed
        return made
    made = clone(model)
    names = made.get_params(deep=True)
    states = {name: seed for name in names if name == "random_state" or name.endswith("__random_state")}
    trainers = [name for name in names if name == "trainer" or name.endswith("__trainer")]
    settings: dict[str, Any] = {}
    for name in trainers:
        settings |= {f"{name}__{key}": value for key, value in _training(names[name], budget, len(trainers)).items()}
    return made.set_params(**states, **settings)


def _training(trainer: Any, budget: Budget, sharing: int) -> dict[str, Any]:
    """What the trainer is told of the budget; several trainers share it."""
    told: dict[str, Any] = {"verbose": False}
    if budget.kind == "seconds":
        told["seconds"] = budget.amount / sharing
    if budget.kind == "evaluations":
        said = trainer.get("batch_size") if isinstance(trainer, dict) else getattr(trainer, "batch_size", None)
        size = int(min(said or _BATCH, budget.amount))
        told |= {"batch_size": size, "epochs": None, "steps": max(1, int(budget.amount / sharing) // size)}
    return told


# -- samples -----------------------------------------------------------------------------------------------


def _sampled(outcome: Outcome, model: Any, job: Job, material: Material, split: Split) -> Outcome:
    """Samples as rows (n, width), or the reason why there are none."""
    given = None
    if needs_labels(model) and split.fit_y is not None:
        given = np_generator(job.seed, "labels").choice(split.fit_y, split.n)
    begun = time.perf_counter()
    rows: Any = None
    with Caught() as caught, time_limit(job.patience):
        rows = material.take_back(draw(model, split.n, derive(job.seed, "sample"), given), split.n, given)
    outcome = replace(outcome, sample_seconds=time.perf_counter() - begun, labels=given)
    if caught.error is not None:
        return replace(outcome, status="failed", reason=f"sampling failed: {caught.text}")
    bad = ~np.isfinite(rows)
    if bad.any():
        share = bad.any(1).mean()
        return replace(
            outcome, status="not finite", reason=f"{100 * share:.3g} % of its samples hold NaN or infinite values"
        )
    return replace(outcome, samples=rows)


def draw(model: Any, n: int, seed: int, given: Any = None) -> Any:
    """``n`` samples, by whichever of seed and random_state the model's ``sample`` takes."""
    names = inspect.signature(model.sample).parameters
    seed32 = seed % 2**32
    options: dict[str, Any] = {} if given is None or "given" not in names else {"given": given}
    if "seed" in names:
        options["seed"] = seed
    elif "random_state" in names:
        options["random_state"] = seed32
    elif hasattr(model, "random_state"):
        model.random_state = seed32  # scikit-learn's mixtures draw by the seed of their fit
    return model.sample(n, **options)


# -- likelihood --------------------------------------------------------------------------------------------


def _likely(outcome: Outcome, model: Any, job: Job, material: Material, split: Split) -> Outcome:
    """The likelihood of judged rows, of as many as time allows."""
    numbers = material.plain and not material.categorical.any()
    if material.schema is not None and job.form == "flat" and not numbers:
        return replace(outcome, no_likelihood="it has no likelihood of mixed columns")
    if material.categorical.any() and type(model).__name__ in _NUMERIC:
        return replace(outcome, no_likelihood="its density takes the values of categories for numbers")
    if not any(hasattr(model, verb) for verb in ("likelihood", "log_prob", "score_samples")):
        return replace(outcome, no_likelihood="it has no likelihood")
    share = max(_LIKELY_SECONDS, 0.05 * job.budget.amount) if job.budget.kind == "seconds" else math.inf
    allowed = min(job.patience, share)
    rows = split.first[:_LIKELY_ROWS]
    found: list[Likelihood] = []
    ended: BaseException | None = None
    for method in _methods(model, rows.shape[1]):
        with Caught() as caught, time_limit(allowed):
            _growing(found, partial(_likelihood_of, model, material, job.form, method), rows, allowed)
        ended = caught.error
        if found or isinstance(ended, TimeUp):
            break
    if not found:
        late = isinstance(ended, TimeUp)
        why = (
            f"its likelihood takes longer than {allowed:.3g} s"
            if late
            else f"its likelihood failed: {in_a_line(ended)}"
        )
        return replace(outcome, no_likelihood=why)
    joined = replace(
        found[0],
        value=np.concatenate([part.value for part in found]),
        stderr=np.concatenate([part.stderr for part in found]),
    )
    if not np.isfinite(joined.value).all():
        return replace(outcome, no_likelihood="its likelihood of some rows is not finite")
    return replace(outcome, likelihood=joined)


def _growing(
    found: list[Likelihood], likelihood: Callable[[np.ndarray], Likelihood], rows: np.ndarray, allowed: float
) -> None:
    """Likelihoods of the first rows, then of as many more, as long as time allows; found: takes them."""
    begun, done = time.perf_counter(), 0
    while done < len(rows):
        spent = time.perf_counter() - begun
        more = min(done, int(0.7 * (allowed - spent) * done / max(spent, 1e-9))) if done else _FIRST_ROWS
        if more < 1:
            return
        found.append(likelihood(rows[done : done + more]))
        done += len(found[-1].value)


def _methods(model: Any, width: int) -> tuple[str | None, ...]:
    """Ways to the likelihood: the model's own, but of wide diffusion models first the bound, which is quick."""
    entry = catalogue().get(type(model).__name__)
    return ("elbo", None) if entry is not None and entry.family == "diffusion" and width > _WIDE else (None,)


def _likelihood_of(model: Any, material: Material, form: str, method: str | None, rows: np.ndarray) -> Likelihood:
    X = material.give(rows, form)
    if hasattr(model, "likelihood"):
        found: Likelihood = model.likelihood(X) if method is None else model.likelihood(X, method)
        return replace(found, value=_numbers(found.value), stderr=_numbers(found.stderr))
    values = _numbers(model.log_prob(X) if hasattr(model, "log_prob") else model.score_samples(X))
    return Likelihood(values, np.zeros_like(values), "exact", "exact", "density")


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu() if is_tensor(values) else values, dtype=np.float64)
