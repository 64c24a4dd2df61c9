"""How strange rows are to a fitted model, seen in three ways: one implementation for every family."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput, nearest

KINDS = ("log_prob", "typicality", "reconstruction")
_DRAWS = 1000  # rows that say what is typical
_REBUILDS = 4  # passes through noise that a row's reconstruction is averaged over
_MOST_COLUMNS = 256  # hidden one at a time


def anomaly(model: Any, X: Any, kind: str | None = None, *, reference: Any = None, given: Any = None) -> Any:
    r"""How strange each row is, (n,); larger is stranger.

    .. math::

        a_{\log p}(x) = -\log p(x), \qquad
        a_\mathrm{typ}(x) = \bigl|-\log p(x) - H\bigr|, \qquad
        a_\mathrm{rec}(x) = \frac1d \sum_j \frac{(x_j - \hat x_j)^2}{\sigma_j^2}

    ``log_prob`` calls improbable rows strange. In many dimensions the most probable point is itself a row that never
    occurs; ``typicality`` asks how far the information in a row, in nats, lies from that of the model's own draws, to
    either side (Nalisnick et al., 2019). ``reconstruction`` asks how badly a row is rebuilt: by encoding and decoding
    where the code is narrower than the row (that of a flow gives every row back); of a diffusion model by noising and
    denoising (Wyatt et al., 2022); and else by hiding each column in turn and filling it from the others.

    model: fitted. X: rows as the model takes them; a gap is left out of all three. kind: one of these words, or None
    for the model's own. reference: rows known to be good, instead of the model's draws, to say what is typical and how
    far columns spread. given: conditions of a conditional model, one or one a row.

    >>> from benthic import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> odd = anomaly(GaussianMixture(1).fit(X), [[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], "typicality")
    >>> odd.argsort()
    array([1, 0, 2])
    """
    if kind is None and not hasattr(model, "_surprise"):
        return model.anomaly(X)
    if kind in (None, "log_prob"):
        return _surprise(model, X, given)
    if kind == "typicality":
        said = _surprise(model, X, given)
        levels = _levels(model, X, reference, given)
        return abs(said - (torch.as_tensor(levels).to(said) if is_tensor(said) else levels.astype(said.dtype)))
    if kind == "reconstruction":
        return _misfit(model, X, reference, given)
    raise InvalidInput(
        f"{type(model).__name__}.anomaly: kind is {kind!r}; use {', '.join(KINDS)}{nearest(str(kind), KINDS)}"
    )


def _surprise(model: Any, X: Any, given: Any) -> Any:
    """Minus the log-likelihood of each row, or an energy that differs from it by a constant."""
    if not (hasattr(model, "_surprise") or hasattr(model, "likelihood")):
        raise InvalidInput(f"{type(model).__name__}.anomaly: the model has no likelihood; use kind='reconstruction'")
    options = {} if given is None else {"given": given}
    return model._surprise(X, **options) if hasattr(model, "_surprise") else -model.likelihood(X, **options).value


# -- typicality ----------------------------------------------------------------------------------------------


def _levels(model: Any, X: Any, reference: Any, given: Any) -> np.ndarray:
    """The mean surprise of typical rows like each row of ``X``: with its condition, its gaps, its length; (n,)."""
    if _is_sequence_model(model):
        return _levels_by_length(model, X, reference)
    if reference is not None and given is not None:
        raise InvalidInput(f"{type(model).__name__}.anomaly: reference rows carry no condition; leave out given")
    gaps = torch.isnan(model._arrive(X, "anomaly")[0]).cpu().numpy()
    levels = np.empty(len(gaps))
    for condition, chosen in by_condition(given, len(gaps)):
        if reference is None:
            options = {} if condition is None else {"given": condition}
            if "noise" in inspect.signature(model.sample).parameters:
                options["noise"] = True  # a mean is likelier than what the model holds for typical
            rows = model.sample(_DRAWS, seed=0, **options)
        else:
            rows = reference
        for pattern in np.unique(gaps[chosen], axis=0):
            some = chosen[(gaps[chosen] == pattern).all(1)]
            levels[some] = _mean(_surprise(model, _with_gaps(model, rows, pattern), condition))
    return levels


def by_condition(given: Any, n: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Each condition, and the rows it holds for."""
    if given is None:
        yield None, np.arange(n)
        return
    values = np.asarray(given.cpu() if is_tensor(given) else given)
    if values.ndim == 0 or len(values) != n:
        yield given, np.arange(n)
        return
    kept, place = np.unique(values, axis=0, return_inverse=True)
    for number, value in enumerate(kept):
        yield value.item() if value.ndim == 0 else value[None], np.flatnonzero(place.ravel() == number)


def _with_gaps(model: Any, rows: Any, pattern: np.ndarray) -> Any:
    """The rows, with the same columns missing."""
    if not pattern.any():
        return rows
    tensor, origin = model._arrive(rows, "anomaly")
    holed = torch.where(torch.as_tensor(pattern, device=tensor.device), torch.nan, tensor)
    return model._data_out(holed, origin)


def _levels_by_length(model: Any, X: Any, reference: Any) -> np.ndarray:
    """Longer sequences carry more information, so that each length has a level of its own."""
    if reference is not None:
        raise InvalidInput(f"{type(model).__name__}.anomaly: reference goes with rows of a table; leave it out")
    shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
    lengths = np.full(shape[0], shape[1]) if len(shape) > 1 else np.array([len(part) for part in X])
    levels = np.empty(len(lengths))
    for length in np.unique(lengths):
        drawn = model.sample(_DRAWS, length=int(length), seed=0)
        levels[lengths == length] = _mean(_surprise(model, drawn, None))
    return levels


def _is_sequence_model(model: Any) -> bool:
    return hasattr(model, "_arrive_sequences")


def _mean(values: Any) -> float:
    return float(values.mean())


# -- reconstruction ------------------------------------------------------------------------------------------


def _misfit(model: Any, X: Any, reference: Any, given: Any) -> Any:
    if _is_sequence_model(model):
        raise InvalidInput(
            f"{type(model).__name__}.anomaly: a model of sequences rebuilds nothing; use log_prob or typicality"
        )
    rows, origin = model._arrive(X, "anomaly")
    rebuilt = _rebuilt(model, X, rows, given).to(rows)
    gaps = torch.isnan(rows)
    errors = torch.where(gaps, 0.0, (rows - rebuilt) / _spread(model, reference).to(rows)).square()
    return origin.mirror(errors.sum(1) / (~gaps).sum(1).clamp(min=1))


def _rebuilt(model: Any, X: Any, rows: Tensor, given: Any) -> Tensor:
    options = {} if given is None else {"given": given}
    if hasattr(model, "edit"):  # a diffusion model: half-way into noise and back
        passes = [model._arrive(model.edit(X, 0.5, seed=seed, **options), "anomaly")[0] for seed in range(_REBUILDS)]
        return torch.stack(passes).mean(0)
    narrow = getattr(model, "_n_features_out", 0) < rows.shape[1] or not hasattr(model, "log_prob")
    if hasattr(model, "reconstruct") and narrow and not getattr(model, "invertible", False):
        found: Tensor = model._arrive(model.reconstruct(X, **options), "anomaly")[0]
        return found
    if hasattr(model, "_impute"):
        return _filled(model, rows, options)
    raise InvalidInput(f"{type(model).__name__}.anomaly: the model rebuilds nothing; use log_prob or typicality")


def _filled(model: Any, rows: Tensor, options: dict[str, Any]) -> Tensor:
    """Every column as the others make it expected; the columns of one category are hidden together."""
    schema = getattr(model, "schema_", None)
    groups = [slice(j, j + 1) for j in range(rows.shape[1])] if schema is None else schema.groups
    if len(groups) > _MOST_COLUMNS:
        raise InvalidInput(
            f"{type(model).__name__}.anomaly: reconstruction would hide {len(groups)} columns one at a time, of which "
            f"{_MOST_COLUMNS} are the most; use log_prob or typicality"
        )
    rebuilt = rows.clone()
    for group in groups:
        holed = rows.clone()
        holed[:, group] = torch.nan
        rebuilt[:, group] = model._impute(holed, **options).to(rows)[:, group]
    return rebuilt


def _spread(model: Any, reference: Any) -> Tensor:
    """The standard deviation of every column: of the reference, the rows of the fit, or the model's draws."""
    scales = getattr(model, "scales_", None)
    if reference is None and hasattr(model, "_spreads"):  # of columns that the scales are not of
        return torch.as_tensor(model._spreads)
    if reference is None and scales is not None:
        return torch.as_tensor(np.asarray(scales.scale, dtype=np.float64)).flatten()
    if reference is None and not hasattr(model, "sample"):
        return torch.ones(())
    rows = model.sample(_DRAWS, seed=0) if reference is None else reference
    spread = np.nanstd(model._arrive(rows, "anomaly")[0].double().cpu().numpy(), axis=0)
    return torch.as_tensor(np.where(spread > 0, spread, 1.0))
