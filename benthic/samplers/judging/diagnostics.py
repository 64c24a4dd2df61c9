r"""How far chains can be trusted: R-hat, effective sample size, Monte Carlo standard errors, energy.

Every function takes draws of shape (chains, draws, ...) on any device and answers for each of the trailing
entries at once. Sums run in float64. Vehtari, Gelman, Simpson, Carpenter and Bürkner, 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput

_BLOCK = 1 << 23  # numbers worked on at once
_FEWEST = 4  # draws that can be split into two halves with a variance each


def split_rhat(x: Any) -> Tensor:
    r"""R-hat of half chains: how much wider all draws spread than those of one half chain.

    .. math:: \hat R = \sqrt{\frac{(n-1) W / n + B / n}{W}}

    with W the mean variance inside half chains of n draws and B / n the variance of their means. Near 1 when
    the chains agree. Gelman et al., 2013, section 11.4. One chain is judged by its two halves alone, which
    shows drift but not that other starting points lead elsewhere.

    x: (chains, draws, ...), at least 4 draws. Returns (...); NaN where a draw is not finite or nothing varies.

    >>> split_rhat(torch.arange(8.0).reshape(2, 4))
    tensor(3.7193)
    """
    return _each("split_rhat", x, lambda rows: _rhat(_halves(rows)))


def rhat(x: Any) -> Tensor:
    r"""Rank-normalized R-hat, the larger of the one for location and the one for spread.

    Draws are replaced by normal scores of their ranks, which also serves laws without a variance; folding
    them about the median first, :math:`|x - \operatorname{med} x|`, shows chains that differ in scale.
    Vehtari et al., 2021. Below 1.01 is good.

    x: (chains, draws, ...), at least 4 draws. Returns (...).

    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.randn(4, 1000, 2, generator=generator)
    >>> bool((rhat(x) < 1.01).all())
    True
    >>> x[0, :, 1] *= 3  # one chain is too wide
    >>> [round(value, 1) for value in rhat(x).tolist()], [round(value, 2) for value in split_rhat(x).tolist()]
    ([1.0, 1.1], [1.0, 1.0])
    """
    return _each("rhat", x, _rank_rhat)


def ess(x: Any) -> Tensor:
    r"""How many independent draws would estimate the mean as well.

    .. math:: N_{\mathrm{eff}} = \frac{N}{\tau}, \qquad \tau = 1 + 2 \sum_t \hat\rho_t

    Autocorrelations of half chains come from one Fourier transform; the sum stops where a sum of two
    neighbors turns negative and is made monotone (Geyer, 1992). Chains that alternate can be worth more than
    N independent draws; :math:`\tau` is kept above :math:`1 / \log_{10} N`. A constant counts as N.

    x: (chains, draws, ...). Returns (...).
    """
    return _each("ess", x, lambda rows: _ess(_halves(rows)))


def ess_bulk(x: Any) -> Tensor:
    """Effective sample size of rank-normalized draws: how well the middle of the law is known.

    Vehtari et al., 2021; at least 400 in all is a sound rule. x: (chains, draws, ...). Returns (...).

    >>> x = torch.randn(4, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> bool((ess_bulk(x) - ess_bulk(x.exp())).abs() < 1e-6)  # ranks do not see a monotone map
    True
    """
    return _each("ess_bulk", x, lambda rows: _ess(_normal_scores(_halves(rows))))


def ess_tail(x: Any, probs: tuple[float, float] = (0.05, 0.95)) -> Tensor:
    """The smaller effective sample size of two tail probabilities: how well the ends of the law are known.

    x: (chains, draws, ...). probs: the two quantiles. Returns (...).
    """
    low, high = (_probability("ess_tail", prob) for prob in probs)

    def work(rows: Tensor) -> Tensor:
        ordered = rows.flatten(1).sort(1).values
        return torch.minimum(_quantile_ess(rows, low, ordered), _quantile_ess(rows, high, ordered))

    return _each("ess_tail", x, work)


def ess_quantile(x: Any, prob: float) -> Tensor:
    """Effective sample size of the probability of lying below a quantile. x: (chains, draws, ...)."""
    prob = _probability("ess_quantile", prob)
    return _each("ess_quantile", x, lambda rows: _quantile_ess(rows, prob, rows.flatten(1).sort(1).values))


def mcse_mean(x: Any) -> Tensor:
    """Standard error of the mean of the draws: their standard deviation over the root of :func:`ess`.

    x: (chains, draws, ...). Returns (...).
    """
    return _each("mcse_mean", x, lambda rows: rows.flatten(1).std(1) / _ess(_halves(rows)).sqrt())


def mcse_sd(x: Any) -> Tensor:
    r"""Standard error of the standard deviation of the draws.

    By the delta method from the variance of :math:`(x - \bar x)^2` and its effective sample size; no law is
    assumed. x: (chains, draws, ...). Returns (...).
    """
    return _each("mcse_sd", x, _mcse_sd)


def mcse_quantile(x: Any, prob: float) -> Tensor:
    """Standard error of a quantile: half of the span of an interval that covers one standard deviation.

    The share of draws below the quantile follows a beta law with the effective sample size of that quantile;
    its 16 % and 84 % points are read off the sorted draws. Vehtari et al., 2021, section 4.4.

    x: (chains, draws, ...). Returns (...).
    """
    prob = _probability("mcse_quantile", prob)
    return _each("mcse_quantile", x, lambda rows: _mcse_quantile(rows, prob))


def bfmi(energy: Any) -> Tensor:
    r"""Bayesian fraction of missing information of each chain: how fast Hamiltonian chains change energy.

    .. math:: \frac{\sum_i (E_i - E_{i-1})^2 / (n - 1)}{\operatorname{var} E}

    Below 0.3 the momentum is too weak for the spread of energies, as in funnels. Betancourt, 2016.

    energy: (chains, draws). Returns (chains,).

    >>> bfmi([[0.0, 1.0, 0.0, 1.0]])
    tensor([3.], dtype=torch.float64)
    """
    energy = _numbers("bfmi", energy)
    if energy.ndim != 2 or energy.shape[1] < 2:
        raise InvalidInput(f"bfmi: energy has shape {tuple(energy.shape)}; (chains, draws) with 2 draws is needed")
    wide = energy.double()
    return (wide.diff(dim=1).square().mean(1) / wide.var(1)).to(energy.dtype)


def autocorrelation(x: Any, lags: int | None = None) -> Tensor:
    """Autocorrelation of each chain about its own mean at lags 0, 1, ...

    x: (chains, draws, ...). lags: how many, all by default. Returns (chains, lags, ...).

    >>> autocorrelation([[1.0, -1.0, 1.0, -1.0]]).tolist()
    [[1.0, -0.75, 0.5, -0.25]]
    """
    x = _numbers("autocorrelation", x)
    if x.ndim < 2 or not x.shape[1]:
        raise InvalidInput(f"autocorrelation: x has shape {tuple(x.shape)}; (chains, draws, ...) is needed")
    covariance = _autocovariance(x.double().movedim(1, -1))  # (chains, ..., draws)
    ratio = covariance / covariance[..., :1]
    return ratio[..., : lags or x.shape[1]].movedim(-1, 1).to(x.dtype)


def quantiles(x: Any, probs: Any) -> Tensor:
    """Quantiles over all chains and draws, linear between order statistics.

    x: (chains, draws, ...). probs: (k,). Returns (k, ...).

    >>> quantiles([[1.0, 2.0], [3.0, 4.0]], [0.5])
    tensor([2.5000], dtype=torch.float64)
    """
    levels = [_probability("quantiles", prob) for prob in torch.as_tensor(probs).flatten().tolist()]

    def work(rows: Tensor) -> Tensor:
        ordered = rows.flatten(1).sort(1).values
        return torch.stack([_quantile(ordered, prob) for prob in levels], 1)

    return _each("quantiles", x, work, fewest=1).movedim(-1, 0)


def _each(where: str, x: Any, work: Callable[[Tensor], Tensor], fewest: int = _FEWEST) -> Tensor:
    """Apply ``work`` to (entries, chains, draws) in float64, a block of entries at a time."""
    x = _numbers(where, x)
    if x.ndim < 2:
        raise InvalidInput(
            f"{where}: x has shape {tuple(x.shape)}; (chains, draws, ...) is needed, one chain is x[None]"
        )
    chains, draws, *shape = x.shape
    if not chains or draws < fewest:
        raise InvalidInput(f"{where}: there are {chains} chains of {draws} draws; at least {fewest} draws are needed")
    rows = x.reshape(chains, draws, -1).permute(2, 0, 1)  # (entries, chains, draws)
    found = [_finite_only(block.double(), work) for block in rows.split(max(1, _BLOCK // (chains * draws)))]
    answer = torch.cat(found) if found else x.new_zeros(0, dtype=torch.float64)
    return answer.reshape((*shape, *answer.shape[1:])).to(x.dtype)


def _finite_only(rows: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
    good = rows.isfinite().flatten(1).all(1)
    answer = work(torch.where(good[:, None, None], rows, 0.0))
    return torch.where(good.reshape(-1, *[1] * (answer.ndim - 1)), answer, math.nan)


def _numbers(where: str, x: Any) -> Tensor:
    x = x.detach() if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
    if x.is_complex():
        raise InvalidInput(f"{where}: x is complex; give its real and imaginary parts as separate entries")
    return x if x.dtype.is_floating_point else x.double()


def _probability(where: str, prob: float) -> float:
    if not 0 <= prob <= 1:
        raise InvalidInput(f"{where}: a probability is {prob}; it must lie between 0 and 1")
    return float(prob)


def _halves(rows: Tensor) -> Tensor:
    """(entries, chains, draws) -> (entries, 2 chains, draws // 2); of an odd number the middle draw is left out."""
    half = rows.shape[2] // 2
    return torch.cat([rows[:, :, :half], rows[:, :, -half:]], 1)


def _rhat(rows: Tensor) -> Tensor:
    n = rows.shape[2]
    between = rows.mean(2).var(1)  # B / n
    within = rows.var(2).mean(1)
    return ((between * n / within + n - 1) / n).sqrt()


def _rank_rhat(rows: Tensor) -> Tensor:
    halves = _halves(rows)
    middle = _quantile(halves.flatten(1).sort(1).values, 0.5)
    location, spread = _rhat(_normal_scores(halves)), _rhat(_normal_scores((halves - middle[:, None, None]).abs()))
    return torch.where(spread.isnan(), location, torch.maximum(location, spread))


def _normal_scores(rows: Tensor) -> Tensor:
    """Normal scores of ranks over chains and draws, ties averaged, with Blom's offset."""
    ordered, place = rows.flatten(1).sort(1)
    n = ordered.shape[1]
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    count = torch.arange(n, device=rows.device, dtype=torch.int32).expand_as(ordered)
    first = torch.where(new, count, 0).cummax(1).values  # where the run of equal values begins
    last = torch.where(new.roll(-1, 1), count, n).flip(1).cummin(1).values.flip(1)  # new[0], rolled to the end, is true
    rank = (first + last).double() / 2 + 1
    scores = torch.special.ndtri((rank - 3 / 8) / (n + 1 / 4))
    return torch.empty_like(scores).scatter_(1, place, scores).reshape(rows.shape)


def _autocovariance(rows: Tensor, mean_over: int | None = None) -> Tensor:
    """Autocovariance over the last dimension, divided by its length at every lag; perhaps its mean over another one."""
    from scipy.fft import next_fast_len

    n = rows.shape[-1]
    size = next_fast_len(2 * n - 1, real=True)
    spectrum = torch.fft.rfft(rows - rows.mean(-1, keepdim=True), size)
    power = spectrum.real.square() + spectrum.imag.square()
    if mean_over is not None:
        power = power.mean(mean_over)  # the inverse transform is linear
    return torch.fft.irfft(power, size)[..., :n] / n


def _ess(rows: Tensor) -> Tensor:
    """Effective sample size of (entries, chains, draws); Geyer, 1992, over all chains as in Vehtari et al., 2021."""
    chains, n = rows.shape[1:]
    total = chains * n
    covariance = _autocovariance(rows, mean_over=1)  # (entries, draws)
    within = covariance[:, 0] * n / (n - 1)
    total_variance = covariance[:, 0] + (rows.mean(2).var(1) if chains > 1 else 0.0)
    rho = 1 - (within[:, None] - covariance) / total_variance[:, None]
    rho[:, 0] = 1
    pairs = rho[:, : n // 2 * 2].unflatten(1, (-1, 2)).sum(2)  # rho_0 + rho_1, rho_2 + rho_3, ...
    last = min(max(0, (n - 3) // 2), pairs.shape[1] - 1)
    positive = (pairs[:, :last] > 0).long().cumprod(1)
    stop = positive.sum(1)  # the first pair that is not positive
    smooth = (pairs[:, :last].cummin(1).values * positive).sum(1) if last else pairs.new_zeros(len(pairs))
    alone = rho.gather(1, 2 * stop[:, None])[:, 0]
    alone = torch.where(pairs.gather(1, stop[:, None])[:, 0] > 0, alone, alone.clamp(min=0))
    tau = (-1 + 2 * smooth + alone).clamp(min=1 / math.log10(total))
    constant = rows.flatten(1).amax(1) == rows.flatten(1).amin(1)
    return torch.where(constant, float(total), total / tau)


def _quantile(ordered: Tensor, prob: float) -> Tensor:
    """Linear between order statistics. ordered: (entries, n), ascending. Returns (entries,)."""
    n = ordered.shape[1]
    place = n * prob + (1 - prob)
    low = min(max(math.floor(place), 1), max(n - 1, 1))
    share = min(max(place - low, 0.0), 1.0)
    return (1 - share) * ordered[:, low - 1] + share * ordered[:, min(low, n - 1)]


def _quantile_ess(rows: Tensor, prob: float, ordered: Tensor) -> Tensor:
    edge = _quantile(ordered, prob)
    return _ess(_halves((rows <= edge[:, None, None]).double()))


def _mcse_sd(rows: Tensor) -> Tensor:
    squares = (rows - rows.mean((1, 2), keepdim=True)).square()
    variance = squares.mean((1, 2))
    spread = squares.square().mean((1, 2)) - variance.square()
    return (spread / _ess(_halves(squares)) / variance / 4).sqrt()


def _mcse_quantile(rows: Tensor, prob: float) -> Tensor:
    from scipy.special import betaincinv

    ordered = rows.flatten(1).sort(1).values
    n = ordered.shape[1]
    size = _quantile_ess(rows, prob, ordered).cpu().numpy()
    ends = [betaincinv(size * prob + 1, size * (1 - prob) + 1, edge) * n - 1 for edge in (0.1586553, 0.8413447)]
    low = torch.as_tensor(ends[0], device=rows.device).floor().clamp(min=0).long()
    high = torch.as_tensor(ends[1], device=rows.device).ceil().clamp(max=n - 1).long()
    return (ordered.gather(1, high[:, None]) - ordered.gather(1, low[:, None]))[:, 0] / 2
