"""Maximum-likelihood fits that need iteration: gamma, beta, Dirichlet, Student's t, Cauchy, Lévy.

Each takes data (n, ...) and shares of the rows (n,) that sum to one, both in float64, and returns the
arguments of the distribution.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Cauchy

from benthic.base.errors import InvalidInput
from benthic.distributions.conjugate import DirichletMultinomial
from benthic.distributions.fits import mean, minimized, refuse_constant, weighted_quantile
from benthic.distributions.scalar import StudentT

_NORMAL_DF = 1e6  # from here on a t law is not told from a normal one


def gamma(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Newton's method for the shape, from a nearly exact start (Minka, 2002)."""
    refuse_constant(x, "Gamma")
    center = mean(x, share)
    gap = (center.log() - mean(x.log(), share)).clamp(min=1e-300)
    shape = (3 - gap + ((gap - 3).square() + 24 * gap).sqrt()) / (12 * gap)
    for _ in range(50):
        miss = shape.log() - torch.digamma(shape) - gap
        slope = 1 / shape - torch.polygamma(1, shape)
        new = 1 / (1 / shape + miss / (shape.square() * slope))
        done = (new - shape).abs() <= 1e-14 * shape
        shape = torch.where(new > 0, new, 0.5 * shape)
        if bool(done.all()):
            break
    return {"concentration": shape, "rate": shape / center}


def chi2(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Degrees of freedom by the inverse of the digamma function."""
    return {"df": 2 * _inverse_digamma(mean(x.log(), share) - math.log(2))}


def dirichlet(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """Newton's method with a diagonal plus rank-one Hessian (Minka, 2000)."""
    if bool((x <= 0).any()):
        raise InvalidInput(
            "mle: a share is 0, where the Dirichlet likelihood is not finite; drop the category or smooth"
        )
    refuse_constant(x, "Dirichlet")
    return {"concentration": _dirichlet_newton(mean(x.log(), share), _dirichlet_start(x, share))}


def beta(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """The Dirichlet fit of x and 1 − x."""
    if bool(((x <= 0) | (x >= 1)).any()):
        raise InvalidInput("mle: a value is 0 or 1, where the Beta likelihood is not finite; move it strictly inside")
    refuse_constant(x, "Beta")
    pair = torch.stack((x, 1 - x), -1)
    logs = torch.stack((x.log(), torch.log1p(-x)), -1)
    found = _dirichlet_newton(mean(logs, share), _dirichlet_start(pair, share))
    return {"concentration1": found[..., 0], "concentration0": found[..., 1]}


def _dirichlet_start(x: Tensor, share: Tensor) -> Tensor:
    """Match the mean and the spread of the shares."""
    center = mean(x, share)
    spread = mean((x - center).square(), share).sum(-1, keepdim=True)
    total = ((center * (1 - center)).sum(-1, keepdim=True) / spread.clamp(min=1e-300) - 1).clamp(min=1e-2)
    return center * total


def _dirichlet_newton(logs: Tensor, alpha: Tensor) -> Tensor:
    """The concentrations under which the mean logarithms are ``logs``, by Newton in their logarithm."""

    def loss(a: Tensor) -> Tensor:
        return torch.lgamma(a).sum(-1) - torch.lgamma(a.sum(-1)) - ((a - 1) * logs).sum(-1)

    value = loss(alpha)
    for _ in range(200):
        gradient = torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True)) - logs
        q = torch.polygamma(1, alpha)
        z = -torch.polygamma(1, alpha.sum(-1, keepdim=True))
        b = (gradient / q).sum(-1, keepdim=True) / (1 / z + (1 / q).sum(-1, keepdim=True))
        step = (gradient - b) / q
        length = torch.ones_like(value)
        for _ in range(40):  # halve until positive and no worse
            trial = alpha - length.unsqueeze(-1) * step
            inside = (trial > 0).all(-1)
            found = torch.where(inside, loss(trial.clamp(min=1e-300)), torch.inf)
            worse = found > value + 1e-13 * value.abs()
            if not bool(worse.any()):
                break
            length = torch.where(worse, 0.5 * length, length)
        trial = torch.where(worse.unsqueeze(-1), alpha, trial)
        done = (trial - alpha).abs() <= 1e-13 * alpha
        alpha, value = trial, torch.where(worse, value, found)
        if bool(done.all()):
            break
    return alpha


def _inverse_digamma(y: Tensor) -> Tensor:
    """Minka, 2000, appendix C."""
    x = torch.where(y >= -2.22, y.exp() + 0.5, -1 / (y + 0.5772156649015329))
    for _ in range(8):
        x = x - (torch.digamma(x) - y) / torch.polygamma(1, x)
    return x


def dirichlet_multinomial(x: Tensor, share: Tensor) -> dict[str, Any]:
    """L-BFGS in the logarithm of the concentrations."""
    if bool((mean(x, share) <= 0).any()):
        raise InvalidInput("mle: a category is never counted, so its concentration is 0; drop the category")
    totals = x.sum(-1)
    start = (mean(x, share) / mean(totals, share).unsqueeze(-1)).log()

    def loss(free: dict[str, Tensor]) -> Tensor:
        law = DirichletMultinomial(free["a"].exp(), total_count=totals, validate_args=False)
        return -(share * law.log_prob(x)).sum()

    found = minimized(loss, {"a": start}, "DirichletMultinomial")["a"].exp()
    same = bool((totals == totals[0]).all())
    return {"concentration": found, "total_count": int(totals[0]) if same else int(totals.max())}


def student_t(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """EM for location and scale, likelihood steps for the degrees of freedom (ECME of Liu & Rubin, 1995)."""
    refuse_constant(x, "StudentT")
    loc = weighted_quantile(x, share, 0.5)
    spread = weighted_quantile(x, share, 0.75) - weighted_quantile(x, share, 0.25)
    scale = torch.where(spread > 0, 0.7 * spread, mean((x - loc).abs(), share))
    df = torch.full_like(loc, 4.0)
    for _ in range(30):
        w = (df + 1) / (df + ((x - loc) / scale).square()) * share.reshape(-1, *[1] * (x.ndim - 1))
        loc = (w * x).sum(0) / w.sum(0)
        scale = ((w * (x - loc).square()).sum(0) / w.sum(0)).sqrt()
        df = _df_step(x, share, loc, scale, df)
    start = {"df": df.log(), "loc": torch.zeros_like(loc), "scale": torch.zeros_like(loc)}

    def law(free: dict[str, Tensor]) -> dict[str, Tensor]:
        df = free["df"].clamp(max=math.log(_NORMAL_DF)).exp()
        return {"df": df, "loc": loc + scale * free["loc"], "scale": scale * free["scale"].exp()}

    def loss(free: dict[str, Tensor]) -> Tensor:
        logs = torch.distributions.StudentT(**law(free), validate_args=False).log_prob(x)
        return -torch.tensordot(share, logs, 1).sum()

    return law(minimized(loss, start, StudentT.__name__))


def _df_step(x: Tensor, share: Tensor, loc: Tensor, scale: Tensor, df: Tensor) -> Tensor:
    """One safeguarded Newton step of the likelihood in log df."""
    z = ((x - loc) / scale).square()
    half = 0.5 * df

    def slope(nu: Tensor) -> Tensor:
        core = torch.digamma(0.5 * (nu + 1)) - torch.digamma(0.5 * nu) - 1 / nu
        return 0.5 * (core + mean((nu + 1) * z / (nu * (nu + z)) - torch.log1p(z / nu), share))

    first = slope(df) * df
    second = (slope(df * 1.001) * df * 1.001 - first) / math.log(1.001)
    move = torch.where(second < 0, -first / second, first.sign())
    return (2 * half * move.clamp(-1, 1).exp()).clamp(1e-3, _NORMAL_DF)


def cauchy(x: Tensor, share: Tensor) -> dict[str, Tensor]:
    """L-BFGS from median and quartiles; the likelihood has one peak (Copas, 1975)."""
    refuse_constant(x, "Cauchy")
    loc = weighted_quantile(x, share, 0.5)
    spread = weighted_quantile(x, share, 0.75) - weighted_quantile(x, share, 0.25)
    scale = torch.where(spread > 0, 0.5 * spread, mean((x - loc).abs(), share))

    def law(free: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"loc": loc + scale * free["loc"], "scale": scale * free["scale"].exp()}

    def loss(free: dict[str, Tensor]) -> Tensor:
        return -torch.tensordot(share, Cauchy(**law(free), validate_args=False).log_prob(x), 1).sum()

    return law(minimized(loss, {"loc": torch.zeros_like(loc), "scale": torch.zeros_like(loc)}, "Cauchy"))


def levy(x: Tensor, share: Tensor, loc: Any = None) -> dict[str, Tensor]:
    """One over the mean of 1/(x − loc); the location, unless known, by search below the least value."""
    refuse_constant(x, "Levy")
    if loc is not None:
        low = torch.as_tensor(loc, dtype=x.dtype, device=x.device).expand(x.shape[1:])
        if bool((x <= low).any()):
            raise InvalidInput("mle: a value is not above loc; Levy lives above its location")
        return {"loc": low, "scale": 1 / mean(1 / (x - low), share)}
    if len(x) < 4:
        raise InvalidInput(f"mle: {len(x)} values leave the location of Levy open; pass at least 4, or loc=")
    least = x.amin(0)
    unit = (weighted_quantile(x, share, 0.5) - least).clamp(min=1e-300)

    def profile(gap: Tensor) -> Tensor:  # the likelihood with the best scale, at least − gap
        far = x - least + gap
        return -0.5 * mean(1 / far, share).log() - 1.5 * mean(far.log(), share)

    low, high = torch.full_like(least, -18.0), torch.full_like(least, 8.0)
    grid = torch.linspace(-18, 8, 131, dtype=x.dtype, device=x.device)
    values = torch.stack([profile(unit * t.exp()) for t in grid])
    best = grid[values.argmax(0)]
    low, high = best - 0.2, best + 0.2
    golden = 0.5 * (math.sqrt(5) - 1)
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        keep = profile(unit * left.exp()) > profile(unit * right.exp())
        low, high = torch.where(keep, low, left), torch.where(keep, right, high)
    place = least - unit * (0.5 * (low + high)).exp()
    return {"loc": place, "scale": 1 / mean(1 / (x - place), share)}
