"""The modes of a column of numbers: a small mixture, as many components as pay for themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benthic.base.quiet import quiet
from benthic.base.seeds import np_generator

_MOST_ROWS = 10_000  # that a mixture is fitted to
_PATIENCE = 2  # sizes in a row that may fail to improve before the search ends
_RARE = 0.005  # components with a smaller weight are dropped (Xu et al., 2019)
_LEAST = 1e-10  # added to variances of the standardized column: narrow modes beside wide ones stay narrow
_POINT = 1e-6  # the spread of a mode that is one value, as a share of the column's


class Modes(NamedTuple):
    """Weights, means and standard deviations of the modes, each (k,), in order of the means."""

    weights: np.ndarray
    means: np.ndarray
    spreads: np.ndarray


def find_modes(values: np.ndarray, most: int, seed: int) -> Modes:
    """The modes of numbers (n,) without gaps: at most so many, their number chosen by BIC.

    A column of no more than ``most`` different values has a mode for each of them.

    >>> found = find_modes(np.array([0.0, 0.0, 0.0, 5.0]), 4, seed=0)
    >>> found.means, found.weights
    (array([0., 5.]), array([0.75, 0.25]))
    """
    distinct, counts = np.unique(values, return_counts=True)
    center, scale = float(values.mean()), float(values.std())
    if len(distinct) <= most or scale == 0.0:
        width = max(scale, abs(center), np.finfo(np.float64).tiny / _POINT)
        return Modes(counts / counts.sum(), distinct, np.full(len(distinct), _POINT * width))
    if len(values) > _MOST_ROWS:
        values = np_generator(seed, "modes").choice(values, _MOST_ROWS, replace=False)
    found = _best_mixture((values - center) / scale, most, seed)
    kept = found.weights >= min(_RARE, float(found.weights.max()))
    order = np.argsort(found.means[kept])
    weights, means, spreads = (part[kept][order] for part in found)
    return Modes(weights / weights.sum(), center + scale * means, scale * spreads)


def _best_mixture(z: np.ndarray, most: int, seed: int) -> Modes:
    from benthic.mixture.gaussian import GaussianMixture

    rows, best, least, worse = z[:, None], None, np.inf, 0
    for k in range(1, most + 1):
        model = GaussianMixture(k, covariance_type="spherical", reg_covar=_LEAST, max_iter=200, random_state=seed)
        # values that repeat make components as narrow as they may be, and a coarse fit is good enough here
        with quiet():
            cost = model.fit(rows).bic(rows)
        if best is None or cost < least:
            best, least, worse = model, cost, 0
        else:
            worse += 1
            if worse == _PATIENCE:
                break
    spreads = np.sqrt(np.asarray(best.covariances_).reshape(-1))
    return Modes(np.asarray(best.weights_), np.asarray(best.means_)[:, 0], spreads)
