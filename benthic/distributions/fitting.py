"""Maximum likelihood for any distribution: closed forms, fixed points, and quasi-Newton for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution, constraints

from benthic.base.errors import InvalidInput
from benthic.distributions import fits, shape_fits
from benthic.distributions.conjugate import DirichletMultinomial
from benthic.distributions.directional import VonMisesFisher
from benthic.distributions.scalar import Levy
from benthic.distributions.stable import Stable
from benthic.distributions.stable_fit import fit_stable

Fit = Callable[..., dict[str, Any]]


class _Rule(NamedTuple):
    """How a family is fitted: the fit, the least event dimension, the support and its name."""

    fit: Fit
    support: constraints.Constraint
    allowed: str
    event: int = 0


_REAL, _POSITIVE, _COUNT = (constraints.real, "finite"), (constraints.positive, "above 0"), "0, 1, 2, ..."
_RULES: dict[type[Distribution], _Rule] = {
    td.LogNormal: _Rule(fits.lognormal, *_POSITIVE),
    td.Normal: _Rule(fits.normal, *_REAL),
    td.HalfNormal: _Rule(fits.half_normal, constraints.nonnegative, "at least 0"),
    td.Laplace: _Rule(fits.laplace, *_REAL),
    td.Exponential: _Rule(fits.exponential, constraints.nonnegative, "at least 0"),
    td.Uniform: _Rule(fits.uniform, *_REAL),
    td.Pareto: _Rule(fits.pareto, *_POSITIVE),
    td.Poisson: _Rule(fits.poisson, constraints.nonnegative_integer, _COUNT),
    td.Bernoulli: _Rule(fits.bernoulli, constraints.boolean, "0 or 1"),
    td.Geometric: _Rule(fits.geometric, constraints.nonnegative_integer, _COUNT),
    td.Binomial: _Rule(fits.binomial, constraints.nonnegative_integer, _COUNT),
    td.Categorical: _Rule(fits.categorical, constraints.nonnegative_integer, _COUNT),
    td.Multinomial: _Rule(fits.multinomial, constraints.nonnegative_integer, _COUNT, 1),
    td.MultivariateNormal: _Rule(fits.multivariate_normal, constraints.real_vector, "finite", 1),
    VonMisesFisher: _Rule(fits.von_mises_fisher, VonMisesFisher.support, "unit vectors", 1),
    td.Dirichlet: _Rule(shape_fits.dirichlet, constraints.simplex, "positive shares that sum to one", 1),
    DirichletMultinomial: _Rule(shape_fits.dirichlet_multinomial, constraints.nonnegative_integer, _COUNT, 1),
    td.Beta: _Rule(shape_fits.beta, constraints.unit_interval, "strictly between 0 and 1"),
    td.Chi2: _Rule(shape_fits.chi2, *_POSITIVE),
    td.Gamma: _Rule(shape_fits.gamma, *_POSITIVE),
    td.StudentT: _Rule(shape_fits.student_t, *_REAL),
    td.Cauchy: _Rule(shape_fits.cauchy, *_REAL),
    Levy: _Rule(shape_fits.levy, *_REAL),
    Stable: _Rule(fit_stable, *_REAL),
}


def mle(family: type[Distribution] | Distribution, data: Any, weights: Any = None, **known: Any) -> Distribution:
    r"""The member of a family under which the data are most likely.

    .. math:: \hat\theta = \arg\max_\theta \sum_i w_i \log p(x_i; \theta)

    Closed forms where they exist; Newton's method for gamma, beta, Dirichlet and von Mises–Fisher; EM
    (Liu & Rubin, 1995) for Student's t; quasi-Newton on the density for stable laws and for every other
    distribution, through ``torch.distributions.transform_to``.

    family: a class, or an instance whose parameters are the start of the search. data: (n,) numbers, (n, k)
    for k separate fits at once, or (n, d) vectors for laws of vectors. weights: (n,) not negative.
    known: settings that are not fitted, as ``total_count`` of a binomial or ``num_events`` of a categorical.

    >>> mle(td.Normal, [1.0, 2.0, 3.0]).loc
    tensor(2., dtype=torch.float64)
    """
    kind, start = (family, None) if isinstance(family, type) else (type(family), family)
    if not (isinstance(kind, type) and issubclass(kind, Distribution)):
        raise InvalidInput(f"mle: family is {family!r}; it must be a distribution class, such as Normal")
    values = data if isinstance(data, Tensor) else torch.as_tensor(data, dtype=torch.float64)
    values = values if values.is_floating_point() else values.double()
    share = _shares(values, weights)
    rule = next((rule for base, rule in _RULES.items() if issubclass(kind, base)), None)
    if rule is None:
        return fits.generic(kind, values.detach(), share, start, **known)
    _refuse_outside(kind, rule, values)
    with torch.no_grad():
        found = rule.fit(values.detach().double(), share.double(), **known)
    dtype = values.dtype
    return kind(**{k: v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in found.items()})


def _shares(values: Tensor, weights: Any) -> Tensor:
    """Weights of the rows that sum to one, or one sentence."""
    if values.ndim == 0 or not values.shape[0]:
        raise InvalidInput("mle: there are no data; pass at least one row")
    if weights is None:
        return torch.full(values.shape[:1], 1 / values.shape[0], dtype=values.dtype, device=values.device)
    share = torch.as_tensor(weights, dtype=values.dtype, device=values.device)
    if share.shape != values.shape[:1]:
        raise InvalidInput(f"mle: weights have shape {tuple(share.shape)} and data {tuple(values.shape)}; one a row")
    if not bool((torch.isfinite(share) & (share >= 0)).all()) or not float(share.sum()) > 0:
        raise InvalidInput("mle: weights must be finite, not negative, and not all zero")
    return share / share.sum()


def _refuse_outside(kind: type[Distribution], rule: _Rule, values: Tensor) -> None:
    name = kind.__name__
    if values.ndim < 1 + rule.event:
        raise InvalidInput(f"mle: data have shape {tuple(values.shape)}; {name} needs rows of vectors, (n, d)")
    good = torch.isfinite(values)
    good = good.all(-1) if rule.event else good
    checked = rule.support.check(values)
    if checked.ndim > good.ndim:
        checked = checked.all(-1)
    good = good & checked
    if not bool(good.all()):
        bad = int((~good).sum())
        example = values[~good][0].tolist()
        raise InvalidInput(
            f"mle: {bad} {'row' if rule.event else 'value'}{'s' * (bad > 1)} of the data, such as {example}, "
            f"cannot come from {name}, whose values are {rule.allowed}"
        )
