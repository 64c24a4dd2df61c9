"""Ways to learn an autoregression: least squares, Yule-Walker, Burg, and exact likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.chains.autoregressive_process import Process, times, windows

TRENDS = {"n": 0, "c": 1, "ct": 2}
CRITERIA = ("aic", "bic", "hq")
_INSIDE = 1 - 1e-7  # the largest partial correlation of a stationary process


@dataclass(frozen=True)
class Moments:
    """Sums over windows, which add over series and over calls: of weights, of squares, and of products.

    count: windows. gram: (m, m) of the regressors (trend, then lags, newest first). cross: (m, d) of regressors and
    steps. square: (d, d) of steps.
    """

    count: int
    gram: Tensor
    cross: Tensor
    square: Tensor

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
        )


def moments(values: Tensor, lengths: Tensor, order: int, n_trend: int, skip: int = 0) -> Moments:
    """The sums of least squares over all windows without gaps that begin ``skip`` steps later than they could."""
    now, past, time = windows(values, lengths, order + skip)
    past = past[:, :order]
    whole = ~(torch.isnan(now).any(1) | torch.isnan(past).flatten(1).any(1))
    now, past, time = now[whole], past[whole], time[whole]
    trend = torch.stack([time.to(now) ** k for k in range(n_trend)], 1) if n_trend else now.new_zeros(len(now), 0)
    regressors = torch.cat([trend, past.flatten(1)], 1)
    return Moments(len(now), regressors.T @ regressors, regressors.T @ now, now.T @ now)


def solve_moments(sums: Moments, order: int, n_trend: int) -> Process:
    """The process whose one-step predictions have the least squared error; shortest where there are many."""
    d = sums.square.shape[0]
    scale = sums.gram.diagonal().clamp(min=1e-300).sqrt()
    scaled = sums.gram / scale[:, None] / scale
    values, vectors = torch.linalg.eigh(scaled)
    keep = values > max(len(values), 1) * 1e-14 * (values.max() if len(values) else 1.0)
    inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
    solution = (inverse @ (sums.cross / scale[:, None])) / scale[:, None]
    rest = sums.square - solution.T @ sums.cross - sums.cross.T @ solution + solution.T @ sums.gram @ solution
    coefficients = solution[n_trend:].reshape(order, d, d).transpose(1, 2)
    return Process(coefficients.contiguous(), solution[:n_trend], _symmetric(rest / max(sums.count, 1)))


def least_squares(values: Tensor, lengths: Tensor, order: int, n_trend: int) -> Process:
    """Conditional maximum likelihood: least squares of every step on the p before it.

    >>> y = torch.tensor([[1.0], [0.5], [0.25], [0.125]]).double()
    >>> least_squares(y, torch.tensor([4]), 1, 0).coefficients.flatten()
    tensor([0.5000], dtype=torch.float64)
    """
    return solve_moments(moments(values, lengths, order, n_trend), order, n_trend)


def autocovariances(values: Tensor, lengths: Tensor, lags: int) -> Tensor:
    r"""(lags + 1, d, d) of centered series, :math:`\Gamma_k = \frac{1}{N} \sum_t y_t y_{t-k}^\top` over all of them."""
    time, total = times(lengths).to(values.device), len(values)
    out = []
    for k in range(lags + 1):
        place = (time >= k).nonzero().squeeze(1)
        out.append(values[place].T @ values[place - k] / total)
    return torch.stack(out)


def yule_walker(values: Tensor, lengths: Tensor, order: int, n_trend: int) -> Process:
    """The process with the autocovariances of the data; always stationary (Yule, 1927; Walker, 1931)."""
    mean = values.mean(0) if n_trend else torch.zeros_like(values[0])
    gammas, d = autocovariances(values - mean, lengths, order), values.shape[1]
    rows = [[gammas[j - i] if j >= i else gammas[i - j].T for j in range(order)] for i in range(order)]
    if not order:
        return _around(mean, gammas[1:], _symmetric(gammas[0]), n_trend)
    block = torch.cat([torch.cat(row, 1) for row in rows])
    right = torch.cat([gammas[k].T for k in range(1, order + 1)])
    solution = torch.linalg.pinv(block, hermitian=True) @ right
    lags = solution.reshape(order, d, d).transpose(1, 2).contiguous()
    return _around(mean, lags, _symmetric(gammas[0] - torch.einsum("lij,lkj->ik", lags, gammas[1:])), n_trend)


def burg(values: Tensor, lengths: Tensor, order: int, n_trend: int) -> Process:
    """Reflection coefficients of least forward and backward errors, for one number a step (Burg, 1975)."""
    mean = values.mean(0) if n_trend else torch.zeros_like(values[0])
    forward = list((values - mean)[:, 0].split(lengths.tolist()))
    backward, variance = forward, float((values - mean).square().mean())
    lags = values.new_zeros(0)
    for _ in range(order):
        forward, backward = [f[1:] for f in forward], [b[:-1] for b in backward]
        ahead, behind = torch.cat(forward), torch.cat(backward)
        power = (ahead.square().sum() + behind.square().sum()).clamp(min=1e-300)
        reflection = 2 * (ahead @ behind) / power
        lags = _lengthen(lags, reflection)
        variance *= float(1 - reflection.square())
        forward, backward = (
            [f - reflection * b for f, b in zip(forward, backward, strict=True)],
            [b - reflection * f for f, b in zip(forward, backward, strict=True)],
        )
    return _around(mean, lags.reshape(-1, 1, 1), values.new_tensor([[variance]]), n_trend)


def exact_likelihood(values: Tensor, lengths: Tensor, order: int, n_trend: int) -> Process:
    """The stationary process of one number a step under which the whole series are most likely.

    L-BFGS over partial correlations between -1 and 1, so that every step on the way is stationary (Barndorff-Nielsen
    & Schou, 1973); starts from Burg's answer. Values have about mean 0 and spread 1.
    """
    from benthic.optim.minimizer import minimize

    start = burg(values, lengths, order, n_trend)
    partial = partial_correlations(start.coefficients[:, 0, 0]).clamp(-0.999, 0.999).atanh()
    noise = start.covariance[0, 0].clamp(min=1e-10).log().reshape(1)
    center = values.mean().expand(n_trend)
    series = list(values[:, 0].split(lengths.tolist()))

    def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x[0].clamp(min=math.log(1e-12)).exp(), _INSIDE * x[1 : order + 1].tanh(), x[order + 1 :].sum()

    def loss(x: Tensor) -> Tensor:
        variance, shares, mean = parts(x)
        return -stationary_log_prob([y - mean for y in series], shares, variance) / len(values)

    found = minimize(loss, torch.cat([noise, partial, center]), tol=1e-8, max_iter=500)
    variance, shares, mean = (part.detach() for part in parts(found.point))
    lags = from_partial_correlations(shares).reshape(-1, 1, 1)
    return _around(mean.reshape(1), lags, variance.reshape(1, 1), n_trend)


def stationary_log_prob(series: list[Tensor], partial: Tensor, variance: Tensor) -> Tensor:
    r"""The log-density of centered series of one number a step, by predictions of growing order.

    partial: (p,) partial correlations :math:`\phi_{kk}`. variance: of the noise. The k-th step is predicted from all
    before it, with variance :math:`\sigma^2 / \prod_{j > k} (1 - \phi_{jj}^2)`, without any matrix (Durbin, 1960).

    >>> half = torch.tensor([0.5]).double()
    >>> x = torch.tensor([1.0, 2.0]).double()
    >>> round(float(stationary_log_prob([x], half, torch.tensor(0.75).double())), 3)  # variance 1, correlation 0.5
    -3.694
    """
    total, lags = variance.new_zeros(()), partial.new_zeros(0)
    widths = variance / (1 - partial.square()).flip(0).cumprod(0).flip(0)
    for k, share in enumerate(partial):
        heads = torch.stack([y[: k + 1] for y in series if len(y) > k])
        error = heads[:, k] - heads[:, :k].flip(1) @ lags
        total = total + _normal(error, widths[k])
        lags = _lengthen(lags, share)
    p = len(partial)
    tails = [y.unfold(0, p + 1, 1) for y in series if len(y) > p]
    if tails:
        rows = torch.cat(tails)
        total = total + _normal(rows[:, p] - rows[:, :p].flip(1) @ lags, variance)
    return total


def _normal(error: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * (error.square().sum() / variance + len(error) * (variance.log() + math.log(2 * math.pi)))


def partial_correlations(lags: Tensor) -> Tensor:
    """(p,) from autoregressive coefficients (p,), by stepping the Durbin-Levinson recursion down."""
    out, current = [], lags
    for k in range(len(lags), 0, -1):
        last = current[k - 1]
        out.append(last)
        rest = current[: k - 1]
        current = (rest + last * rest.flip(0)) / (1 - last.square()).clamp(min=1e-12)
    return torch.stack(out[::-1]) if out else lags


def from_partial_correlations(partial: Tensor) -> Tensor:
    """(p,) autoregressive coefficients, by the Durbin-Levinson recursion; stationary if all are between -1 and 1.

    >>> from_partial_correlations(torch.tensor([0.5, 0.2]))
    tensor([0.4000, 0.2000])
    """
    lags = partial.new_zeros(0)
    for value in partial:
        lags = _lengthen(lags, value)
    return lags


def _lengthen(lags: Tensor, reflection: Tensor) -> Tensor:
    return torch.cat([lags - reflection * lags.flip(0), reflection.reshape(1)])


def _around(mean: Tensor, lags: Tensor, covariance: Tensor, n_trend: int) -> Process:
    constant = mean - torch.einsum("lij,j->i", lags, mean) if len(lags) else mean
    return Process(lags, constant[None] if n_trend else mean.new_zeros(0, len(mean)), covariance)


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.T)


Fit = Callable[[Tensor, Tensor, int, int], Process]
METHODS: dict[str, Fit] = {
    "least-squares": least_squares,
    "yule-walker": yule_walker,
    "burg": burg,
    "exact": exact_likelihood,
}


def criteria(values: Tensor, lengths: Tensor, most: int, n_trend: int) -> dict[str, list[float]]:
    r"""Information criteria of orders 0 to ``most``, all on the same steps, those with ``most`` before them.

    .. math:: \log |S_p| + \frac{c_N}{N} d\, (q + p d), \qquad c_N = 2,\; \log N,\; 2 \log \log N

    for AIC, BIC and HQ (Hannan & Quinn, 1979). Every order is solved from one set of sums.
    """
    widest, d = moments(values, lengths, most, n_trend), values.shape[1]
    if widest.count < 2:
        raise InvalidInput(
            f"no step has {most} whole steps before it; lower max_order or pass longer series to choose an order"
        )
    scale = float(widest.square.diagonal().clamp(min=1e-300).log().sum()) - d * math.log(widest.count)
    penalties = {"aic": 2.0, "bic": math.log(widest.count), "hq": 2 * math.log(max(math.log(widest.count), 1e-3))}
    out: dict[str, list[float]] = {name: [] for name in penalties}
    for p in range(most + 1):
        m = n_trend + p * d
        part = Moments(widest.count, widest.gram[:m, :m], widest.cross[:m], widest.square)
        sign, logdet = torch.linalg.slogdet(solve_moments(part, p, n_trend).covariance)
        fit = max(float(logdet), scale - 30.0 * d) if float(sign) > 0 else scale - 30.0 * d
        for name, penalty in penalties.items():
            out[name].append(fit + penalty * d * m / widest.count)
    return out


def units(values: Tensor, n_trend: int) -> tuple[Tensor, Tensor]:
    """(d,) means (0 without a trend) and (d,) spreads of the known numbers of each column."""
    known = torch.isnan(values).logical_not()
    count = known.sum(0).clamp(min=1)
    mean = values.nan_to_num(0.0).sum(0) / count if n_trend else torch.zeros_like(values[0])
    spread = ((values - mean).nan_to_num(0.0).square().sum(0) / count).sqrt()
    return mean, torch.where(spread > 1e-12 * mean.abs() + 1e-150, spread, 1.0)


def in_units(found: Process, mean: Tensor, spread: Tensor) -> Process:
    """A process of numbers (y - mean) / spread, as one of y."""
    lags = found.coefficients * spread[:, None] / spread
    trend = found.trend * spread
    if len(trend):
        trend = torch.cat([trend[:1] + mean - torch.einsum("lij,j->i", lags, mean), trend[1:]])
    return Process(lags, trend, positive(found.covariance) * spread[:, None] * spread)


def fitted(method: str, values: Tensor, lengths: Tensor, order: int, n_trend: int) -> Process:
    """The process of one method, found in units in which every column has mean 0 (with a trend) and spread 1."""
    mean, spread = units(values, n_trend)
    return in_units(METHODS[method]((values - mean) / spread, lengths, order, n_trend), mean, spread)


def positive(covariance: Tensor, floor: float = 1e-12) -> Tensor:
    """The covariance with no variance below ``floor``, so that a series without noise has a density too."""
    values, vectors = torch.linalg.eigh(_symmetric(covariance))
    if float(values.min()) > floor:
        return covariance
    return (vectors * values.clamp(min=floor)) @ vectors.T
