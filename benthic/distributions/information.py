"""How much there is to know: entropy, cross-entropy, mutual information; and, from ``divergences``, distances of laws.

One argument that is an array is a table of probabilities; distributions and ``Samples`` are told by their type.
Tables, closed forms, sums and one-dimensional integrals give tensors; draws give an ``Estimate(value, stderr)``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimate import Estimate
from benthic.distributions import estimators, tables
from benthic.distributions.divergences import Answer, dense, in_base
from benthic.distributions.divergences import fisher_divergence as fisher_divergence
from benthic.distributions.divergences import hellinger as hellinger
from benthic.distributions.divergences import js as js
from benthic.distributions.divergences import kl as kl
from benthic.distributions.divergences import total_variation as total_variation
from benthic.distributions.laws import Average, agree, evaluate, gaussian
from benthic.distributions.sources import Samples as Samples
from benthic.distributions.sources import comparable, log_density, rows_of
from benthic.linalg import cholesky

MUTUAL = ("knn", "histogram")


def entropy(
    p: Any,
    *,
    base: float = math.e,
    method: str | None = None,
    n: int = 10_000,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""The entropy of p, for a continuous law its differential entropy.

    .. math:: H(p) = -E_p \log p(x)

    Of K outcomes it is at most log K. From samples: Kozachenko & Leonenko, 1987, for measurements, and Miller's
    correction of the plug-in for labels (integers).

    p: probabilities (..., K), a distribution, or ``Samples``. base: of the logarithm. method: ``closed``,
    ``quadrature`` or ``monte_carlo`` for distributions, None for the first that applies. n: draws of Monte
    Carlo. k: neighbors. Returns a tensor (...), or an ``Estimate`` where draws decide.

    >>> entropy([0.25, 0.25, 0.25, 0.25], base=2)
    tensor(2., dtype=torch.float64)
    >>> entropy(torch.distributions.Uniform(0.0, 2.0))
    tensor(0.6931)
    """
    if not isinstance(p, Distribution | Samples):
        return in_base(tables.entropy(tables.probabilities(p, "entropy")), base)
    if dense(p):
        average = Average(lambda _, logs: -logs[0], lambda law: law.entropy())
        return in_base(evaluate("entropy", average, [p], method, n, seed), base)
    if p.discrete:
        return in_base(estimators.entropy_counts(p.labels()), base)
    found = estimators.with_error(lambda X: estimators.entropy_knn(X, k), [p.rows], 4 * (k + 1), False, seed)
    return in_base(found, base)


def cross_entropy(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    method: str | None = None,
    n: int = 10_000,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""The cross-entropy of q under p, the mean code length of draws of p in a code made for q.

    .. math:: H(p, q) = -E_p \log q(x) = H(p) + \mathrm{KL}(p \| q)

    Samples of p with a density of q need no estimate but the mean. Arguments and answers as for ``kl``.

    >>> cross_entropy([0.0, 0.0, 1.0], [0.1, 0.2, 0.7], base=10)
    tensor(0.1549, dtype=torch.float64)
    """
    law = [isinstance(side, Distribution | Samples) for side in (p, q)]
    if not any(law):
        return in_base(tables.cross_entropy(*tables.pair(p, q, "cross_entropy")), base)
    if not all(law):
        raise InvalidInput("cross_entropy: give two arrays of probabilities, or distributions and Samples(x) only")
    if dense(q) and isinstance(p, Distribution):
        average = Average(lambda _, logs: -logs[1], lambda a, b: a.entropy() + kl_divergence(a, b))
        return in_base(evaluate("cross_entropy", average, [p, q], method, n, seed), base)
    if dense(q):
        agree("cross_entropy", [p, q])
        values = -log_density(q, p.x, "cross_entropy").detach().double()
        return in_base(Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values))), base)
    x, y = rows_of(p, n, seed), q.rows
    comparable("cross_entropy", x, y)
    if q.discrete:
        return in_base(estimators.from_labels(tables.cross_entropy, x, y, seed), base)
    found = estimators.with_error(lambda X, Y: estimators.cross_entropy_knn(X, Y, k), [x, y], 4 * (k + 1), False, seed)
    return in_base(found, base)


def joint_entropy(p: Any, y: Any = None, *, base: float = math.e, k: int = 3, seed: int | None = None) -> Answer:
    r"""The entropy of a pair.

    .. math:: H(X, Y) = -E \log p(x, y)

    p: a joint table (..., K, L) of probabilities, or a distribution of vectors; with y, paired samples of X and
    of Y, each (n,) or (n, d), integers being labels. Returns a tensor for the former, an ``Estimate`` for samples.

    >>> joint_entropy([[0.25, 0.25], [0.25, 0.25]], base=2)
    tensor(2., dtype=torch.float64)
    """
    if y is None:
        if isinstance(p, Distribution | Samples):
            return entropy(p, base=base, k=k, seed=seed)
        return in_base(tables.entropy(tables.probabilities(p, "joint_entropy", "table", 2).flatten(-2)), base)
    x, y = _paired(p, y, "joint_entropy")
    if x.discrete == y.discrete:
        return entropy(Samples(torch.cat((x.rows, y.rows), 1)), base=base, k=k, seed=seed)
    found = estimators.with_error(
        lambda X, Y: _entropy_of(X, k) + _entropy_of(Y, k) - _mutual_of(X, Y, k),
        [x.rows, y.rows],
        _smallest(x, y, k),
        True,
        seed,
    )
    return in_base(found, base)


def conditional_entropy(
    p: Any,
    y: Any = None,
    *,
    split: int | None = None,
    base: float = math.e,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""What is left to know of X once Y is known.

    .. math:: H(X | Y) = E_y H(X | Y = y) = H(X, Y) - H(Y)

    p: a joint table (..., K, L) with X in rows and Y in columns; or a normal law of vectors, of which the first
    ``split`` coordinates are X; or, with y, paired samples of X and of Y. Returns a tensor, or an ``Estimate``
    for samples.

    >>> conditional_entropy([[0.5, 0.0], [0.0, 0.5]])
    tensor(0., dtype=torch.float64)
    """
    if y is not None:
        x, y = _paired(p, y, "conditional_entropy")
        found = estimators.with_error(
            lambda X, Y: _entropy_of(X, k) - _mutual_of(X, Y, k), [x.rows, y.rows], _smallest(x, y, k), True, seed
        )
        return in_base(found, base)
    if isinstance(p, Distribution):
        both, _, given = _log_determinants(p, split, "conditional_entropy")
        return in_base(0.5 * (both - given) + 0.5 * split * math.log(2 * math.pi * math.e), base)
    return in_base(tables.conditional_entropy(tables.probabilities(p, "conditional_entropy", "table", 2)), base)


def mutual_information(
    p: Any,
    y: Any = None,
    *,
    split: int | None = None,
    base: float = math.e,
    method: str | None = None,
    bins: int | None = None,
    k: int = 3,
    seed: int | None = None,
) -> Answer:
    r"""How much X and Y tell about each other.

    .. math:: I(X; Y) = \mathrm{KL}(p(x, y) \| p(x) p(y)) = H(X) - H(X | Y)

    Exact for tables and normal laws. From samples: Kraskov, Stögbauer & Grassberger, 2004, for measurements;
    Ross, 2014, for measurements and labels; counts with Miller's correction for labels, and for measurements
    put into bins of equal count.

    p: a joint table (..., K, L); or a normal law of vectors, of which the first ``split`` coordinates are X; or,
    with y, samples of X, (n,) or (n, d), beside paired samples of Y. Integers are labels. method: ``knn`` or
    ``histogram`` (columns only); None for neighbors where anything is measured. k: neighbors, bins: a column,
    None for about five draws in a cell. Returns a tensor, or an ``Estimate`` for samples.

    >>> mutual_information([[0.5, 0.0], [0.0, 0.5]], base=2)
    tensor(1., dtype=torch.float64)
    """
    where = "mutual_information"
    if y is None and isinstance(p, Distribution):
        both, own, given = _log_determinants(p, split, where)
        return in_base(0.5 * (own + given - both), base)
    if y is None:
        return in_base(tables.mutual_information(tables.probabilities(p, where, "table", 2)), base)
    if method is not None and method not in MUTUAL:
        raise InvalidInput(f"{where}: method is {method!r}; use one of {MUTUAL} or None{nearest(method, MUTUAL)}")
    x, y = _paired(p, y, where)
    if method == "histogram" or (x.discrete and y.discrete):
        return in_base(estimators.mutual_information_counts(_cells(x, bins, where), _cells(y, bins, where)), base)
    found = estimators.with_error(lambda X, Y: _mutual_of(X, Y, k), [x.rows, y.rows], _smallest(x, y, k), True, seed)
    return in_base(found, base)


def _paired(x: Any, y: Any, where: str) -> tuple[Samples, Samples]:
    x, y = (side if isinstance(side, Samples) else Samples(side) for side in (x, y))
    if len(x) != len(y):
        raise InvalidInput(f"{where}: x has {len(x)} draws and y has {len(y)}; they must come in pairs")
    return x, y


def _cells(side: Samples, bins: int | None, where: str) -> Tensor:
    if side.discrete:
        return side.labels()
    if side.rows.shape[1] > 1:
        raise InvalidInput(f"{where}: a histogram takes one column a side, not {side.rows.shape[1]}; use method='knn'")
    return estimators.quantile_labels(side.rows[:, 0], bins, where)


def _smallest(x: Samples, y: Samples, k: int) -> int:
    """The least number of draws from which an estimate is worth having."""
    kinds = max(int(side.labels().max()) + 1 if side.discrete else 1 for side in (x, y))
    return 4 * (k + 1) * kinds


def _mutual_of(X: Tensor, Y: Tensor, k: int) -> float:
    """Mutual information of rows (n, a) and (n, b), by what kind of values they are."""
    kinds = X.is_floating_point(), Y.is_floating_point()
    if all(kinds):
        return estimators.mutual_information_knn(X, Y.to(X.dtype), k)
    if not any(kinds):
        return estimators.mutual_information_counts(Samples(X).labels(), Samples(Y).labels()).value
    measured, labels = (X, Y) if kinds[0] else (Y, X)
    return estimators.mutual_information_mixed(measured, Samples(labels).labels(), k)


def _entropy_of(X: Tensor, k: int) -> float:
    return (
        estimators.entropy_knn(X, k) if X.is_floating_point() else estimators.entropy_counts(Samples(X).labels()).value
    )


def _log_determinants(law: Distribution, split: int | None, where: str) -> tuple[Tensor, Tensor, Tensor]:
    """Log-determinants of the covariance of (X, Y), of X and of Y, for a normal law."""
    try:
        covariance = gaussian(law)[1]
    except NotImplementedError as error:
        raise InvalidInput(
            f"{where}: {type(law).__name__} has no closed form; draw from it and pass the samples of X and Y"
        ) from error
    d = covariance.shape[-1]
    if split is None or not 0 < split < d:
        raise InvalidInput(f"{where}: split is {split}; it says how many of the {d} coordinates are X, 1 to {d - 1}")
    blocks = (covariance, covariance[..., :split, :split], covariance[..., split:, split:])
    both, own, given = (
        cholesky(block, name="covariance").diagonal(dim1=-2, dim2=-1).log().sum(-1) * 2 for block in blocks
    )
    return both, own, given
