"""The Sinkhorn divergence: entropic transport without its bias, zero exactly when the measures are equal."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.transport import checks
from benthic.transport.costs import PointCloud
from benthic.transport.entropic import sinkhorn


def sinkhorn_divergence(
    X: Any = None,
    Y: Any = None,
    epsilon: float = 0.05,
    *,
    a: Any = None,
    b: Any = None,
    p: float = 2,
    costs: tuple[Any, Any, Any] | None = None,
    **options: Any,
) -> Tensor:
    r"""Debiased entropic transport between two point clouds, or two histograms with three costs.

    .. math:: S_\epsilon(a, b) = OT_\epsilon(a, b) - \tfrac12 OT_\epsilon(a, a) - \tfrac12 OT_\epsilon(b, b)
        + \tfrac{\epsilon}{2} (m_a - m_b)^2

    The last term is zero unless total masses differ (``rho``). Feydy et al., 2019; Séjourné et al., 2019.

    X: (..., n, d), Y: (..., m, d) points whose cost is the distance to the power p, never stored when large.
    costs: (C_ab, C_aa, C_bb) in place of points. a: (..., n), b: (..., m) masses, None is uniform.
    options: as for ``sinkhorn``. Returns (...), differentiable in points, costs and masses.

    >>> import torch
    >>> X = torch.tensor([[0.0], [1.0]])
    >>> float(sinkhorn_divergence(X, X, 0.5))
    0.0
    """
    if (costs is None) == (X is None or Y is None):
        raise InvalidInput("sinkhorn_divergence: give either two point clouds X and Y or costs=(C_ab, C_aa, C_bb)")
    if costs is None:
        X, Y = checks.clouds("sinkhorn_divergence", X, Y)
        both, left, right = PointCloud(X, Y, p), PointCloud(X, X, p), PointCloud(Y, Y, p)
    else:
        both, left, right = costs
    found = sinkhorn(a, b, both, epsilon, **options)
    own = [sinkhorn(w, w, cost, epsilon, **options).value for w, cost in ((a, left), (b, right))]
    value = found.value - own[0] / 2 - own[1] / 2
    if options.get("rho") is not None:
        value = value + epsilon / 2 * (found.a.sum(-1) - found.b.sum(-1)) ** 2
    return value
