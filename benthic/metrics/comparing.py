"""Whether one model is better than another, or only luckier on these rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.metrics.rows import coded, same_rows


@dataclass(frozen=True)
class TestResult:
    """A test of two models: how far apart they are, the statistic, and the chance of one as large by luck.

    difference: first minus second, with its error. interval: where the difference lies at the level asked for.
    """

    difference: Estimate
    statistic: float
    p_value: float
    interval: tuple[float, float]
    method: str

    __test__ = False

    def __str__(self) -> str:
        return f"{self.method}: difference {self.difference}, p = {self.p_value:.3g}"


def resampled_estimate(scores: Any, test_share: float) -> Estimate:
    r"""Mean of the scores of resampled fits, with an error that knows the training sets overlap.

    .. math:: s^2 = \Bigl(\frac1J + \frac{n_\mathrm{test}}{n_\mathrm{train}}\Bigr) \hat\sigma^2

    Nadeau & Bengio, 2003; for folds as in Bouckaert & Frank, 2004. The naive error, with 1/J alone, shrinks to
    nothing as fits are repeated on the same rows; this one does not.

    scores: (J,) one a fit. test_share: rows judged over rows fitted, 1/(k - 1) for k folds.

    >>> round(resampled_estimate([0.8, 0.9, 0.7], 0.5).stderr, 4)
    0.0913
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InvalidInput("resampled_estimate: scores must be finite numbers, one a fit")
    if not test_share >= 0:
        raise InvalidInput(f"resampled_estimate: test_share is {test_share}; rows judged over rows fitted is positive")
    if len(values) < 2:
        return Estimate(float(values[0]), math.nan)
    return Estimate(float(values.mean()), math.sqrt((1 / len(values) + test_share) * values.var(ddof=1)))


def corrected_t_test(first: Any, second: Any, test_share: float, level: float = 0.95) -> TestResult:
    """Paired t-test of two models on the same resampled fits, corrected for their overlap (Nadeau & Bengio, 2003).

    first, second: (J,) scores of the same splits. test_share: rows judged over rows fitted. level: of the interval.

    >>> round(corrected_t_test([0.9, 0.8, 0.85], [0.8, 0.75, 0.7], 0.5).p_value, 3)
    0.16
    """
    from scipy.stats import t as law

    where = "corrected_t_test"
    n = same_rows(where, first=first, second=second)
    if n < 2:
        raise InvalidInput(f"{where}: there is one fit; at least two are needed")
    found = resampled_estimate(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64), test_share)
    reach = float(law.ppf((1 + level) / 2, n - 1)) * found.stderr
    interval = (found.value - reach, found.value + reach)
    if found.stderr == 0:
        statistic = math.copysign(math.inf, found.value) if found.value else 0.0
        return TestResult(found, statistic, 0.0 if found.value else 1.0, interval, "corrected resampled t-test")
    statistic = found.value / found.stderr
    p = 2 * float(law.sf(abs(statistic), n - 1))
    return TestResult(found, statistic, p, interval, "corrected resampled t-test")


def mcnemar(y: Any, first: Any, second: Any, exact: bool | None = None, level: float = 0.95) -> TestResult:
    r"""Whether two classifiers judged on the same rows are wrong equally often (McNemar, 1947).

    Only the rows on which one is right and the other wrong speak: b where the first is right, c where the second.

    .. math:: \chi^2 = \frac{(|b - c| - 1)^2}{b + c}

    y, first, second: (n,) labels. exact: the binomial test instead of the corrected chi-square above; None takes it
    for fewer than 25 such rows. The difference is that of the accuracies.

    >>> mcnemar([1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]).p_value
    0.25
    """
    from scipy.stats import binomtest, chi2, norm

    where = "mcnemar"
    n = same_rows(where, y=y, first=first, second=second)
    _, codes = coded(where, y=y, first=first, second=second)
    if any(part.ndim != 1 for part in codes):
        raise InvalidInput(f"{where}: y, first and second must be one label a row")
    truth, one, other = codes
    b = int(((one == truth) & (other != truth)).sum())
    c = int(((one != truth) & (other == truth)).sum())
    change = (b - c) / n
    error = math.sqrt(max(0.0, (b + c) / n - change**2) / (n - 1)) if n > 1 else math.nan
    reach = float(norm.ppf((1 + level) / 2)) * error
    interval = (change - reach, change + reach)
    if exact or (exact is None and b + c < 25):
        p = float(binomtest(min(b, c), b + c, 0.5).pvalue) if b + c else 1.0
        return TestResult(Estimate(change, error), float(min(b, c)), p, interval, "exact McNemar test")
    statistic = (max(0, abs(b - c) - 1)) ** 2 / (b + c) if b + c else 0.0
    return TestResult(Estimate(change, error), statistic, float(chi2.sf(statistic, 1)), interval, "McNemar test")
