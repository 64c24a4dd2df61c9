"""Settings searched for with Optuna, in each family's own space and under the budget of the comparison."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.schema import Schema, is_frame
from benthic.base.seeds import derive, np_generator
from benthic.base.settings import is_whole
from benthic.data.splits import take
from benthic.leaderboard.contest.contestants import abilities, needs_labels
from benthic.leaderboard.contest.jobs import Caught, draw, time_limit
from benthic.leaderboard.contest.predicting.fits import seeded, under_budget
from benthic.leaderboard.contest.records import Budget, Contestant
from benthic.leaderboard.contest.tuning.inside import Searched
from benthic.leaderboard.contest.tuning.spaces import Between, Space, Whole, space_of
from benthic.metrics.rows import plain

_HELD = 0.25  # share of the rows that trials of a generator are judged on
_MOST = 2000  # rows of samples


@dataclass(frozen=True)
class Search:
    """What a search found.

    settings: the best, empty where nothing beat those the model had. loss: theirs; first: of the model's own. tried:
    settings and loss of every trial, the loss None of one that failed.
    """

    settings: dict[str, Any]
    loss: float
    first: float
    tried: tuple[tuple[dict[str, Any], float | None], ...]


def tuned(
    contestant: Contestant,
    trials: int,
    data: Any,
    budget: Any,
    seed: int = 0,
    *,
    task: str | None = None,
) -> Contestant:
    """The contestant with better settings, of ``trials`` that are tried.

    A generator is searched now: fitted on three quarters of the rows and judged on the others, by likelihood where
    that is exact and else by the sliced Wasserstein distance of its samples. A predictor is searched inside each of its
    fits, so that no row it is judged on ever chose its settings. The first trial is the model as it stands; a trial is
    one fit under the budget, and the search ends after as many budgets as there are trials.

    data: the rows to learn from, or a pair of rows and labels. task: ``generate``, ``classify``, ``regress`` or
    ``cluster``; by default what the model does, generating first. A model without a space stays as it is.

    >>> from benthic import GaussianMixture
    >>> rows = np.concatenate([np.random.default_rng(0).normal(size=(100, 1)) + 9 * i for i in range(2)])
    >>> tuned(Contestant("GMM", GaussianMixture(1)), 4, rows, "5s").model.n_components > 1
    True
    """
    budget = Budget.of(budget)
    _check_trials(trials)
    can = abilities(contestant.model)
    task = task or next((name for name in ("generate", "classify", "regress", "cluster") if name in can), "generate")
    if task != "generate":
        return searching(contestant, trials, task)
    space = space_of(contestant.model)
    if space is None or trials < 2:
        return contestant
    X, y = data if isinstance(data, tuple) else (data, None)
    loss = _generator_loss(X, y, budget, seed)
    found = search(contestant.model, space, loss, trials, seed, _whole_time(budget, trials))
    from sklearn.base import clone

    return dataclasses.replace(contestant, model=clone(contestant.model).set_params(**found.settings))


def searching(contestant: Contestant, trials: int, task: str) -> Contestant:
    """The contestant with a search inside every fit; the same where its family has no space."""
    _check_trials(trials)
    optuna()
    if space_of(contestant.model) is None or trials < 2:
        return contestant
    return dataclasses.replace(contestant, model=Searched(contestant.model, trials=trials, task=task))


def search(
    model: Any, space: Space, loss: Callable[[Any], float], trials: int, seed: int = 0, seconds: float = math.inf
) -> Search:
    """The best of some settings, by tree-structured Parzen estimators (Bergstra et al., 2011).

    loss: of an unfitted copy with its settings, lower is better; what it raises makes a failed trial. trials: how
    many, the first with the model's own settings. seconds: after which no trial begins.

    >>> from sklearn.linear_model import Ridge
    >>> found = search(Ridge(), {"alpha": Between(1e-3, 1e3, log=True)}, lambda m: abs(np.log10(m.alpha) - 2), 20)
    >>> found.loss < 1 < found.first
    True
    """
    from sklearn.base import clone

    tool = optuna()
    with _quiet(tool):
        study = tool.create_study(direction="minimize", sampler=tool.samplers.TPESampler(seed=seed % 2**32))
    begun = time.monotonic()
    first, _ = _tried(clone(model), loss)
    best: tuple[dict[str, Any], float] = {}, math.inf if first is None else first
    tried: list[tuple[dict[str, Any], float | None]] = [({}, first)]
    for _ in range(trials - 1):
        if time.monotonic() - begun > seconds:
            break
        trial = study.ask()
        settings = {name: _suggested(trial, name, choice) for name, choice in space.items()}
        value, _ = _tried(clone(model).set_params(**settings), loss)
        study.tell(trial, value, state=None if value is not None else tool.trial.TrialState.FAIL)
        tried.append((settings, value))
        if value is not None and value < best[1]:
            best = settings, value
    if math.isinf(best[1]):
        raise InvalidInput(f"tuned: every one of {len(tried)} settings of {type(model).__name__} failed to fit")
    return Search(*best, math.nan if first is None else first, tuple(tried))


def optuna() -> Any:
    """The library that searches; it is optional."""
    try:
        import optuna as tool
    except ImportError as error:
        raise InvalidInput("compare: tune needs Optuna; install it with pip install 'benthic[tune]'") from error
    return tool


@contextmanager
def _quiet(tool: Any) -> Iterator[None]:
    """Without the line that every new study writes to the log; what the person has set is put back."""
    before = tool.logging.get_verbosity()
    tool.logging.set_verbosity(tool.logging.WARNING)
    try:
        yield
    finally:
        tool.logging.set_verbosity(before)


def _suggested(trial: Any, name: str, choice: Any) -> Any:
    if isinstance(choice, Between):
        return trial.suggest_float(name, choice.low, choice.high, log=choice.log)
    if isinstance(choice, Whole):
        return trial.suggest_int(name, choice.low, choice.high, log=choice.log)
    # by number, since Optuna takes only plain values for options
    return choice.options[trial.suggest_categorical(name, list(range(len(choice.options))))]


def _tried(model: Any, loss: Callable[[Any], float]) -> tuple[float | None, str]:
    """The loss of one trial, or None and why there is none."""
    with Caught() as caught:
        value = float(loss(model))
        return (value, "") if math.isfinite(value) else (None, f"its loss is {value}")
    return None, caught.text


def _check_trials(trials: Any) -> None:
    if not is_whole(trials, 1):
        raise InvalidInput(f"compare: tune is {trials!r}; it must be a whole number of settings to try, or 0")


def _whole_time(budget: Budget, trials: int) -> float:
    return budget.amount * trials if budget.kind == "seconds" else math.inf


# -- generators ----------------------------------------------------------------------------------------------


def _generator_loss(X: Any, y: Any, budget: Budget, seed: int) -> Callable[[Any], float]:
    """How far from held-out rows a generator with its settings ends, fitted on the others."""
    n = X.shape[0]
    order = np_generator(seed, "tune").permutation(n)
    held, fit = np.sort(order[: max(1, round(_HELD * n))]), np.sort(order[max(1, round(_HELD * n)) :])
    labels: Any = None if y is None else plain(y)
    numbers = _numbers_of(X)
    real = numbers(take(X, held))
    spread = np.where(np.std(real, axis=0) > 0, np.std(real, axis=0), 1.0)
    limit = 2 * budget.amount + 10 if budget.kind == "seconds" else math.inf

    def loss(model: Any) -> float:
        model = seeded(under_budget(model, budget, len(fit)), seed)
        told = labels is not None and needs_labels(model)
        with time_limit(limit):
            model.fit(take(X, fit), labels[fit]) if told else model.fit(take(X, fit))
        if hasattr(model, "log_prob") and not told:
            return -float(plain(model.log_prob(take(X, held))).mean())
        given = labels[held][:_MOST] if told else None
        made = numbers(draw(model, min(len(held), _MOST), derive(seed, "sample"), given))
        from benthic.metrics.transported import sliced_wasserstein

        return sliced_wasserstein(real[:_MOST] / spread, made / spread, seed=seed).value

    return loss


def _numbers_of(X: Any) -> Callable[[Any], np.ndarray]:
    """A function from rows like ``X`` to a matrix."""
    if is_frame(X):
        schema = Schema.infer(X)
        return lambda rows: np.asarray(schema.encode(rows), dtype=np.float64)
    return lambda rows: np.asarray(plain(rows), dtype=np.float64).reshape(len(rows), -1)
