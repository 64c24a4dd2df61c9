"""How far one law is from another: Kullback–Leibler, Jensen–Shannon, Fisher, total variation, Hellinger.

Every function takes arrays of probabilities, distributions, or ``Samples``, and returns

- a tensor for arrays of probabilities (..., K), batched over the leading dimensions;
- a tensor for distributions whose answer is a closed form, a finite sum or an integral over one dimension;
- an ``Estimate(value, stderr)`` where draws are needed, or are what was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence
from torch.nn.functional import logsigmoid

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import derive, seed_of
from benthic.distributions import estimators, tables
from benthic.distributions.laws import Average, Source, agree, evaluate, gaussian, ratio
from benthic.distributions.sources import Samples, comparable, log_density, rows_of, scores, shape_of
from benthic.linalg import cholesky

Answer = Tensor | Estimate


def kl(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    method: str | None = None,
    n: int = 10_000,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""The Kullback–Leibler divergence of p from q.

    .. math:: \mathrm{KL}(p \| q) = E_p \log \frac{p(x)}{q(x)}

    Infinite where p has mass that q has not. From samples without densities: Wang, Kulkarni & Verdú, 2009; the
    error bar is of its spread, and does not count its bias, which is towards 0 where p reaches far beyond q.

    p, q: probabilities (..., K), distributions, or ``Samples``, also one of each of the last two. base: of the
    logarithm. method: ``closed``, ``quadrature`` or ``monte_carlo`` for distributions, None for the first that
    applies. n: draws of Monte Carlo. k: neighbors. Returns a tensor, or an ``Estimate`` where draws decide.

    >>> kl([0.0, 0.0, 1.0], [0.1, 0.2, 0.7])
    tensor(0.3567, dtype=torch.float64)
    >>> kl(torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    if not _sources("kl", p, q):
        return in_base(tables.kl(*tables.pair(p, q, "kl")), base)
    if dense(p) and dense(q):
        average = Average(lambda _, logs: logs[0] - logs[1], kl_divergence)
        return in_base(evaluate("kl", average, [p, q], method, n, seed), base)
    if dense(q):
        return in_base(_kl_from_draws(p, q, k, seed), base)
    x, y = rows_of(p, n, seed), q.rows
    comparable("kl", x, y)
    if q.discrete:
        return in_base(estimators.from_labels(tables.kl, x, y, seed), base)

    def by_neighbors(X: Tensor, Y: Tensor) -> float:
        if not dense(p):
            return estimators.kl_knn(X, Y, k)
        known = float(log_density(p, X.reshape(len(X), *shape_of(p)), "kl").mean())
        return known + estimators.cross_entropy_knn(X, Y, k, "kl")

    return in_base(estimators.with_error(by_neighbors, [x, y], 4 * (k + 1), False, seed), base)


def js(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    method: str | None = None,
    n: int = 10_000,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""The Jensen–Shannon divergence of p and q, from 0 to log 2.

    .. math:: \mathrm{JS}(p, q) = \tfrac12 \mathrm{KL}(p \| m) + \tfrac12 \mathrm{KL}(q \| m),
        \quad m = \tfrac12 (p + q)

    Lin, 1991. It is the mutual information of a draw from m and the fair coin that chose its law, which is how
    it is estimated from samples without densities (Ross, 2014); the larger sample is then thinned to the smaller.
    Arguments and answers as for ``kl``.

    >>> js([1.0, 0.0], [0.0, 1.0], base=2)
    tensor(1., dtype=torch.float64)
    """

    def by_neighbors(X: Tensor, Y: Tensor) -> float:
        coin = torch.arange(2, device=X.device).repeat_interleave(len(X))
        return estimators.mutual_information_mixed(torch.cat((X, Y)), coin, k, "js")

    average = Average(lambda _, logs: _js_of_ratio(ratio(logs)), symmetric=True)
    return in_base(_symmetric("js", p, q, tables.js, average, by_neighbors, method, n, k, seed), base)


def total_variation(p: Any, q: Any, *, method: str | None = None, n: int = 10_000, seed: int | None = None) -> Answer:
    r"""The total variation of p and q: the most by which they differ on any event.

    .. math:: \mathrm{TV}(p, q) = \tfrac12 \int |p(x) - q(x)| \, dx

    Continuous samples need densities, ``Samples(x, log_prob=f)``. Arguments and answers as for ``kl``.

    >>> total_variation([0.5, 0.5], [0.2, 0.8])
    tensor(0.3000, dtype=torch.float64)
    """
    average = Average(lambda _, logs: torch.tanh(0.5 * ratio(logs).abs()), symmetric=True)
    return _symmetric("total_variation", p, q, tables.total_variation, average, None, method, n, 1, seed)


def hellinger(
    p: Any, q: Any, *, method: str | None = None, n: int = 10_000, k: int = 3, seed: int | None = None
) -> Answer:
    r"""The Hellinger distance of p and q, from 0 to 1.

    .. math:: H(p, q) = \Big( \tfrac12 \int (\sqrt{p(x)} - \sqrt{q(x)})^2 dx \Big)^{1/2}

    From samples without densities: Póczos & Schneider, 2011. Arguments and answers as for ``kl``.

    >>> hellinger([1.0, 0.0], [0.0, 1.0])
    tensor(1., dtype=torch.float64)
    """

    def by_neighbors(X: Tensor, Y: Tensor) -> float:
        return 1 - 0.5 * (estimators.affinity_knn(X, Y, k) + estimators.affinity_knn(Y, X, k))

    def squared(a: Tensor, b: Tensor) -> Tensor:
        return tables.hellinger(a, b).square()

    average = Average(lambda _, logs: _hellinger_of_ratio(ratio(logs)), _hellinger_gaussian, symmetric=True)
    if not _sources("hellinger", p, q):
        return tables.hellinger(*tables.pair(p, q, "hellinger"))
    found = _symmetric("hellinger", p, q, squared, average, by_neighbors, method, n, k, seed)
    if isinstance(found, Tensor):
        return found.clamp(min=0).sqrt()
    root = math.sqrt(max(found.value, 0.0))
    return Estimate(root, found.stderr / (2 * root) if root > 0 else math.sqrt(found.stderr))


def fisher_divergence(p: Any, q: Any, *, method: str | None = None, n: int = 10_000, seed: int | None = None) -> Answer:
    r"""The Fisher divergence of p from q: how far their scores are apart.

    .. math:: F(p \| q) = E_p \| \nabla \log p(x) - \nabla \log q(x) \|^2

    Some authors halve it. Normalizing constants do not enter, so densities may be unnormalized. Scores come by
    automatic differentiation; two normal laws have a closed form.

    p: a distribution, or ``Samples(x, log_prob=f)``. q: the same. method, n and the answer as for ``kl``.

    >>> normal = torch.distributions.Normal
    >>> fisher_divergence(normal(0.0, 1.0), normal(3.0, 1.0))
    tensor(9.)
    """
    if not _sources("fisher_divergence", p, q) or not (dense(p) and dense(q)):
        raise InvalidInput("fisher_divergence: both laws need a density; give distributions, or Samples(x, log_prob=f)")
    if any(law.discrete if isinstance(law, Samples) else law.support.is_discrete for law in (p, q)):
        raise InvalidInput("fisher_divergence: a discrete law has no score; use kl, js or hellinger")

    def gap(x: Tensor, logs: list[Tensor]) -> Tensor:
        x = x.expand(logs[0].shape + x.shape[logs[0].ndim :])
        learning = any(log.requires_grad for log in logs)
        first, second = (scores(law, x, "fisher_divergence", learning) for law in (p, q))
        square = (first - second).square().reshape(*logs[0].shape, -1).sum(-1)
        return torch.where(torch.isinf(logs[1]), math.inf, square)

    return evaluate("fisher_divergence", Average(gap, _fisher_gaussian), [p, q], method, n, seed)


def in_base(found: Answer, base: float) -> Answer:
    """An amount of information in nats, in units of another logarithm."""
    if not base > 0 or base == 1 or not math.isfinite(base):
        raise InvalidInput(f"base is {base!r}; the base of a logarithm is positive and not 1, such as 2, 10 or math.e")
    if base == math.e:
        return found
    scale = math.log(base)
    return found / scale if isinstance(found, Tensor) else Estimate(found.value / scale, found.stderr / abs(scale))


def dense(law: Source) -> bool:
    """Whether a law has a density to evaluate."""
    return isinstance(law, Distribution) or law.log_prob is not None


def _sources(where: str, p: Any, q: Any) -> bool:
    """Whether both are laws or samples; False for two arrays."""
    found = [isinstance(side, Distribution | Samples) for side in (p, q)]
    if found[0] != found[1]:
        raise InvalidInput(
            f"{where}: p is a {type(p).__name__} and q a {type(q).__name__}; give two arrays of probabilities, "
            "or a distribution or Samples(x) on both sides"
        )
    return found[0]


def _kl_from_draws(p: Samples, q: Source, k: int, seed: int | None) -> Estimate:
    """KL of draws without a density from a law that has one: cross-entropy less entropy."""
    agree("kl", [p, q])

    def estimate(x: Tensor) -> float:
        own = Samples(x)
        if own.discrete:
            entropy = estimators.entropy_counts(own.labels()).value
        else:
            entropy = estimators.entropy_knn(own.rows, k, "kl")
        return -float(log_density(q, x, "kl").mean()) - entropy

    return estimators.with_error(estimate, [p.x], 4 * (k + 1), False, seed)


def _symmetric(
    where: str,
    p: Any,
    q: Any,
    table: Callable[[Tensor, Tensor], Tensor],
    average: Average,
    by_neighbors: Callable[[Tensor, Tensor], float] | None,
    method: str | None,
    n: int,
    k: int,
    seed: int | None,
) -> Answer:
    if not _sources(where, p, q):
        return table(*tables.pair(p, q, where))
    if dense(p) and dense(q):
        return evaluate(where, average, [p, q], method, n, seed)
    base = seed_of(seed)
    x, y = rows_of(p, n, derive(base, 0)), rows_of(q, n, derive(base, 1))
    comparable(where, x, y)
    if not x.is_floating_point():
        return estimators.from_labels(table, x, y, seed)
    if by_neighbors is None:
        raise InvalidInput(f"{where}: draws of a continuous law need densities; give them with Samples(x, log_prob=f)")
    order = torch.Generator().manual_seed(base)
    small = min(len(x), len(y))
    pair = [rows[torch.randperm(len(rows), generator=order)[:small].to(rows.device)] for rows in (x, y)]
    return estimators.with_error(by_neighbors, pair, 4 * (k + 1), False, base)


def _js_of_ratio(t: Tensor) -> Tensor:
    return math.log(2) + torch.sigmoid(t) * logsigmoid(t) + torch.sigmoid(-t) * logsigmoid(-t)


def _hellinger_of_ratio(t: Tensor) -> Tensor:
    """1 − 1/cosh(t/2), without cancellation where the laws nearly agree."""
    return 2 * torch.sinh(t / 4).square() / torch.cosh(t / 2)


def _hellinger_gaussian(p: Distribution, q: Distribution) -> Tensor:
    (a, A), (b, B) = gaussian(p), gaussian(q)
    middle = cholesky(0.5 * (A + B), name="the mean covariance")
    gap = torch.linalg.solve_triangular(middle, (a - b)[..., None], upper=False).square().sum((-2, -1))
    halves = [cholesky(part, name="a covariance").diagonal(dim1=-2, dim2=-1).log().sum(-1) for part in (A, B)]
    center = middle.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -torch.expm1(0.5 * (halves[0] + halves[1]) - center - gap / 8)


def _fisher_gaussian(p: Distribution, q: Distribution) -> Tensor:
    (a, A), (b, B) = gaussian(p), gaussian(q)
    pull = torch.cholesky_solve((a - b)[..., None], cholesky(B, name="the covariance of q"))
    precisions = [torch.cholesky_inverse(cholesky(part, name="a covariance")) for part in (A, B)]
    gap = precisions[1] - precisions[0]
    return (gap @ A @ gap).diagonal(dim1=-2, dim2=-1).sum(-1) + pull.square().sum((-2, -1))
