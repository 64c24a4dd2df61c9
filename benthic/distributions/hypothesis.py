"""Student's t-test in all its forms, and how large an effect is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.distributions.tables import as_float_tensor

ALTERNATIVES = ("two-sided", "less", "greater")
EFFECTS = ("hedges", "cohen", "glass")


@dataclass(frozen=True)
class TTest:
    """What a t-test found.

    statistic: t. df: degrees of freedom. p_value: the chance of a t at least as extreme if the means agree with
    the hypothesis. estimate: the mean, or the difference of means. stderr: its standard error. interval: for the
    estimate, one-sided where the alternative is. cohen_d: the estimate, less what was hypothesized, in standard
    deviations; hedges_g: the same without the bias of small samples.
    """

    kind: str
    alternative: str
    statistic: float
    df: float
    p_value: float
    estimate: float
    stderr: float
    interval: tuple[float, float]
    level: float
    cohen_d: float
    hedges_g: float
    n: tuple[int, ...]

    def __str__(self) -> str:
        what = "difference of means" if len(self.n) == 2 else "mean"
        what = "mean difference" if self.kind.startswith("paired") else what
        low, high = self.interval
        return (
            f"{self.kind}, {self.alternative}: t = {self.statistic:.4g}, df = {self.df:.4g}, p = {self.p_value:.2g}\n"
            f"{what} {self.estimate:.4g} ± {self.stderr:.2g}, {100 * self.level:g} % interval [{low:.4g}, {high:.4g}]\n"
            f"Cohen's d = {self.cohen_d:.3g}, Hedges' g = {self.hedges_g:.3g}, n = {' and '.join(map(str, self.n))}"
        )


@dataclass(frozen=True)
class _Sample:
    mean: float
    variance: float
    n: int


def t_test(
    x: Any,
    y: Any = None,
    mean: float = 0.0,
    *,
    equal_variance: bool = False,
    alternative: str = "two-sided",
    level: float = 0.95,
) -> TTest:
    r"""Student's t-test of a mean, or of the difference of two means.

    .. math:: t = \frac{\bar x - \bar y - \mu}{\sqrt{s_x^2 / n_x + s_y^2 / n_y}}

    Student, 1908; Welch, 1947, where the variances may differ, with Satterthwaite's degrees of freedom.

    x: (n,) values. y: (m,) values of a second, independent sample, None for a test of one. mean: the mean, or
    difference, under the hypothesis. equal_variance: pool the two variances, df = n + m − 2. alternative:
    ``two-sided``, or that the truth is ``less`` or ``greater`` than ``mean``. level: of the interval.

    >>> print(t_test([5.1, 4.9, 5.6, 5.8, 5.3], mean=5.0))
    one-sample t-test, two-sided: t = 2.085, df = 4, p = 0.11
    mean 5.34 ± 0.16, 95 % interval [4.887, 5.793]
    Cohen's d = 0.932, Hedges' g = 0.744, n = 5
    """
    first = _summary(x, "x", "t_test")
    second = None if y is None else _summary(y, "y", "t_test")
    return _test(first, second, mean, equal_variance, alternative, level)


def paired_t_test(x: Any, y: Any, mean: float = 0.0, *, alternative: str = "two-sided", level: float = 0.95) -> TTest:
    """Student's t-test of the differences x − y of paired values, (n,) each; the rest as for ``t_test``.

    >>> round(paired_t_test([7.0, 8.0, 9.5], [5.0, 7.0, 7.5]).statistic, 3)
    5.0
    """
    x, y = as_float_tensor(x), as_float_tensor(y)
    if x.shape != y.shape:
        raise InvalidInput(f"paired_t_test: x has shape {tuple(x.shape)} and y {tuple(y.shape)}; pairs are needed")
    found = _summary(x.double() - y.double(), "x − y", "paired_t_test")
    return _test(found, None, mean, False, alternative, level, "paired t-test")


def t_test_from_summary(
    first: tuple[float, float, int],
    second: tuple[float, float, int] | None = None,
    mean: float = 0.0,
    *,
    equal_variance: bool = False,
    alternative: str = "two-sided",
    level: float = 0.95,
) -> TTest:
    """The t-test from what a paper reports: (mean, standard deviation, n) of one sample or of two.

    Blood pressure after treatment, 20 patients with a drug and 20 with a placebo:

    >>> test = t_test_from_summary((143.25, 4.37, 20), (149.55, 3.10, 20), equal_variance=True)
    >>> f"{test.statistic:.2f} {test.df:g} {test.p_value:.1e}"
    '-5.26 38 5.9e-06'
    """
    samples = []
    for given in (first, second):
        if given is None:
            samples.append(None)
            continue
        average, deviation, n = given
        if not deviation >= 0 or not math.isfinite(average):
            raise InvalidInput(f"t_test_from_summary: {given} has no mean, or a negative standard deviation")
        _freedom(int(n), "t_test_from_summary")
        samples.append(_Sample(float(average), float(deviation) ** 2, int(n)))
    return _test(samples[0], samples[1], mean, equal_variance, alternative, level)


def effect_size(x: Any, y: Any = None, mean: float = 0.0, *, kind: str = "hedges", paired: bool = False) -> Estimate:
    r"""A difference of means in standard deviations, with its standard error.

    .. math:: d = \frac{\bar x - \bar y}{s}, \quad g = \frac{\Gamma(\nu/2)}{\sqrt{\nu/2} \, \Gamma((\nu - 1)/2)} d

    Cohen, 1988; Hedges, 1981; the standard error is that of Hedges & Olkin, 1985.

    x: (n,). y: (m,), None to compare x with ``mean``. kind: ``cohen`` for d, with s pooled over both; ``hedges``
    for g, d without the bias of small samples; ``glass`` for s of y alone, the controls. paired: s is that of x − y.

    >>> print(effect_size([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], kind="cohen"))
    4 ± 1.4
    """
    if kind not in EFFECTS:
        raise InvalidInput(f"effect_size: kind is {kind!r}; use one of {EFFECTS}{nearest(str(kind), EFFECTS)}")
    if paired or y is None:
        if kind == "glass" or (paired and y is None):
            raise InvalidInput("effect_size: paired values and Glass's effect need y, and do not go together")
        d = (paired_t_test(x, y, mean) if paired else t_test(x, mean=mean)).cohen_d
        n = len(as_float_tensor(x))
        stderr, free = math.sqrt(1 / n + d**2 / (2 * n)), n - 1.0
    else:
        a, b = _summary(x, "x", "effect_size"), _summary(y, "y", "effect_size")
        if kind == "glass":
            value = _ratio(a.mean - b.mean - mean, math.sqrt(b.variance))
            return Estimate(value, math.sqrt(1 / a.n + 1 / b.n + value**2 / (2 * (b.n - 1))))
        d, free = _test(a, b, mean, True, "two-sided", 0.95).cohen_d, a.n + b.n - 2.0
        stderr = math.sqrt(1 / a.n + 1 / b.n + d**2 / (2 * (a.n + b.n)))
    factor = _small_sample(free) if kind == "hedges" else 1.0
    return Estimate(factor * d, factor * stderr)


def _test(
    a: _Sample,
    b: _Sample | None,
    mean: float,
    equal_variance: bool,
    alternative: str,
    level: float,
    kind: str = "one-sample t-test",
) -> TTest:
    if alternative not in ALTERNATIVES:
        hint = nearest(str(alternative), ALTERNATIVES)
        raise InvalidInput(f"t_test: alternative is {alternative!r}; use one of {ALTERNATIVES}{hint}")
    if not 0 < level < 1:
        raise InvalidInput(f"t_test: level is {level}; it must lie between 0 and 1, such as 0.95")
    if b is None:
        estimate, spread, df = a.mean, math.sqrt(a.variance), a.n - 1.0
        stderr, free, sizes = spread / math.sqrt(a.n), a.n - 1.0, (a.n,)
    else:
        estimate, free, sizes = a.mean - b.mean, a.n + b.n - 2.0, (a.n, b.n)
        spread = math.sqrt(((a.n - 1) * a.variance + (b.n - 1) * b.variance) / free)
        stderr, df = _two(a, b, spread, equal_variance)
        kind = "pooled t-test" if equal_variance else "Welch's t-test"
    statistic = _ratio(estimate - mean, stderr)
    d = _ratio(estimate - mean, spread)
    return TTest(
        kind,
        alternative,
        statistic,
        df,
        _p_value(statistic, df, alternative),
        estimate,
        stderr,
        _interval(estimate, stderr, df, alternative, level),
        level,
        d,
        d * _small_sample(free),
        sizes,
    )


def _two(a: _Sample, b: _Sample, spread: float, equal_variance: bool) -> tuple[float, float]:
    """Standard error of a difference of means, and its degrees of freedom."""
    if equal_variance:
        return spread * math.sqrt(1 / a.n + 1 / b.n), a.n + b.n - 2.0
    u, v = a.variance / a.n, b.variance / b.n
    if u + v == 0:
        return 0.0, a.n + b.n - 2.0
    # shares first: squares of tiny variances would underflow
    share = u / (u + v)
    return math.sqrt(u + v), 1 / (share**2 / (a.n - 1) + (1 - share) ** 2 / (b.n - 1))


def _p_value(t: float, df: float, alternative: str) -> float:
    from scipy import special

    if math.isnan(t):
        return math.nan
    tail = {"less": t, "greater": -t, "two-sided": -abs(t)}[alternative]
    return float(special.stdtr(df, tail)) * (2 if alternative == "two-sided" else 1)


def _interval(estimate: float, stderr: float, df: float, alternative: str, level: float) -> tuple[float, float]:
    from scipy import special

    reach = stderr * float(special.stdtrit(df, (1 + level) / 2 if alternative == "two-sided" else level))
    low = -math.inf if alternative == "less" else estimate - reach
    high = math.inf if alternative == "greater" else estimate + reach
    return low, high


def _summary(x: Any, name: str, where: str) -> _Sample:
    x = as_float_tensor(x)
    if x.ndim != 1:
        raise InvalidInput(f"{where}: {name} has shape {tuple(x.shape)}; one sample, (n,), is needed")
    _freedom(len(x), where)
    if not bool(torch.isfinite(x).all()):
        raise InvalidInput(f"{where}: {name} has NaN or infinite values; drop or impute them first")
    x = x.detach().double()
    return _Sample(float(x.mean()), float(x.var()), len(x))


def _freedom(n: int, where: str) -> None:
    if n < 2:
        raise InvalidInput(
            f"{where}: a sample of {n} leaves {n - 1} degrees of freedom for its variance; at least 2 values are needed"
        )


def _ratio(numerator: float, denominator: float) -> float:
    """The quotient; ±∞ for something of no spread, NaN for nothing of no spread."""
    if denominator > 0:
        return numerator / denominator
    return math.copysign(math.inf, numerator) if numerator else math.nan


def _small_sample(df: float) -> float:
    """Hedges's exact factor, E of Cohen's d being the effect divided by it; NaN below 2 degrees of freedom."""
    if df < 2:
        return math.nan
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
