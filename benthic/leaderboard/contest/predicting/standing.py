"""Who is best, and how sure that is: the joint law of scores that many models got on the same folds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.metrics.comparing import corrected_t_test, resampled_estimate

_DRAWS = 20_000


@dataclass(frozen=True)
class Standing:
    """The place of one model among m.

    value, stderr: mean score and its corrected error. low, high: where the mean lies at the level asked for.
    rank_low, rank_high: interval of the rank, 1 is best. p_best: probability of being best. p_value: of the corrected
    paired test against the best mean, 1 for the best itself. difference: mean less that of the best.
    """

    value: float
    stderr: float
    low: float
    high: float
    rank_low: int
    rank_high: int
    p_best: float
    p_value: float
    difference: float


def standings(
    scores: np.ndarray, test_share: float, better: str, *, level: float = 0.95, seed: int = 0
) -> list[Standing]:
    r"""Ranks of models judged on the same J fits, with what chance may have done to them.

    .. math::

        \mu \mid \text{scores} \sim t_{J-1}\!\Bigl(\bar s,\; \Bigl(\tfrac1J + \tfrac{n_\mathrm{test}}{n_\mathrm{train}}
        \Bigr) \hat\Sigma\Bigr)

    with :math:`\hat\Sigma` the covariance of the scores over fits. The law of a difference of two means is then that of
    the corrected resampled t-test (Nadeau & Bengio, 2003), of which this is the joint form; as a posterior it is that
    of Corani & Benavoli (2015). Draws from it are ranked: their share of first places is the probability of being
    best, their quantiles the interval of the rank. Models that tie share a place.

    scores: (J, m). test_share: rows judged over rows fitted. better: ``higher`` or ``lower``.

    >>> found = standings(np.array([[0.9, 0.5], [0.8, 0.5], [0.9, 0.6], [0.8, 0.4]]), 0.25, "higher")
    >>> found[0].rank_low, found[0].rank_high, found[1].p_best < 0.05
    (1, 1, True)
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or not values.shape[1] or not np.isfinite(values).all():
        raise InvalidInput(
            f"standings: scores have shape {values.shape}; finite numbers (fits, models) of two fits or more are needed"
        )
    sign = 1.0 if better == "higher" else -1.0
    drawn = _draws(sign * values, test_share, seed)
    ranks = _ranks(drawn)  # (draws, m)
    first = ranks == 1
    p_best = (first / first.sum(1, keepdims=True)).mean(0)
    tail = (1 - level) / 2
    low, high = np.quantile(ranks, [tail, 1 - tail], axis=0, method="nearest").astype(int)
    best = int((sign * values.mean(0)).argmax())
    found = []
    for j in range(values.shape[1]):
        estimate = resampled_estimate(values[:, j], test_share)
        reach = _reach(len(values), level) * estimate.stderr
        test = corrected_t_test(values[:, j], values[:, best], test_share, level)
        found.append(
            Standing(
                *estimate,
                low=estimate.value - reach,
                high=estimate.value + reach,
                rank_low=int(low[j]),
                rank_high=int(high[j]),
                p_best=float(p_best[j]),
                p_value=1.0 if j == best else test.p_value,
                difference=test.difference.value,
            )
        )
    return found


def _draws(values: np.ndarray, test_share: float, seed: int) -> np.ndarray:
    """Draws (draws, m) of the means; deviations mixed with normal weights have their covariance, of any rank."""
    J = len(values)
    noise = np_generator(seed, "standings")
    deviations = (values - values.mean(0)) / math.sqrt(J - 1)  # (J, m)
    normal = noise.standard_normal((_DRAWS, J)) @ deviations
    wide = np.sqrt((J - 1) / noise.chisquare(J - 1, _DRAWS))[:, None]
    found: np.ndarray = values.mean(0) + math.sqrt(1 / J + test_share) * normal * wide
    return found


def _ranks(drawn: np.ndarray) -> np.ndarray:
    """One more than the number of models strictly better, in each draw; larger is better."""
    ranks = np.empty(drawn.shape, dtype=np.int64)
    scale = np.abs(drawn).max(initial=1e-300) * 1e-12  # equal models differ by rounding
    for j in range(drawn.shape[1]):
        ranks[:, j] = 1 + (drawn > drawn[:, j : j + 1] + scale).sum(1)
    return ranks


def _reach(J: int, level: float) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, J - 1))
