"""Displacement interpolation: mass travels along straight lines instead of fading out and in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.pictures.canvas import new_figure
from benthic.transport import checks
from benthic.transport.entropic import Transport
from benthic.transport.line import Discrete
from benthic.transport.program import exact


def displacement(X: Any, Y: Any, t: float, a: Any = None, b: Any = None, plan: Any = None) -> Discrete:
    r"""The measure on the way from one point cloud to another at time t.

    .. math:: \mu_t = \sum_{ij} T_{ij} \, \delta_{(1 - t) x_i + t y_j}

    McCann, 1997. X: (n, d), Y: (m, d) points with masses a: (n,), b: (m,), None is uniform. plan: (n, m) or a
    ``Transport``; None computes the exact one for squared distances. 0 <= t <= 1. Returns the points (k, d) and masses
    (k,) of the pairs between which more than a millionth of an average pair's mass moves.

    >>> displacement([[0.0, 0.0]], [[2.0, 4.0]], 0.25).points
    tensor([[0.5000, 1.0000]], dtype=torch.float64)
    """
    if not 0 <= float(t) <= 1:
        raise InvalidInput(f"displacement: t is {t}; a time between 0 and 1 is needed")
    X, Y = checks.clouds("displacement", X, Y)
    if X.ndim != 2 or Y.ndim != 2:
        raise InvalidInput(
            f"displacement: X and Y have shapes {tuple(X.shape)}, {tuple(Y.shape)}; (n, d), (m, d) are needed"
        )
    T = _plan(X, Y, a, b, plan)
    least = 1e-6 * T.mean()
    i, j = torch.nonzero(T - least > 0, as_tuple=True)
    masses = T[i, j]
    return Discrete((1 - t) * X[i] + t * Y[j], masses / masses.sum())


def _plan(X: Tensor, Y: Tensor, a: Any, b: Any, plan: Any) -> Tensor:
    if plan is None:
        return exact(a, b, torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist") ** 2).plan.detach()
    T = (plan.plan if isinstance(plan, Transport) else checks.tensor("displacement", "plan", plan, X)).detach()
    if T.shape != (len(X), len(Y)):
        raise InvalidInput(f"displacement: the plan has shape {tuple(T.shape)}; ({len(X)}, {len(Y)}) is needed")
    return T


def plot_displacement(X: Any, Y: Any, times: int = 5, a: Any = None, b: Any = None, plan: Any = None) -> Any:
    """A figure of the way from X to Y, one panel a time: points of the plane, or histograms on the line.

    X: (n, d), Y: (m, d) with d = 1 or 2; more dimensions are shown by their first two. Other arguments as for
    ``displacement``.

    >>> figure = plot_displacement([[0.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 2.0]], times=3)
    >>> len(figure.axes)
    3
    """
    if times < 2:
        raise InvalidInput(f"plot_displacement: times is {times}; at least 2 are needed")
    X, Y = checks.clouds("plot_displacement", X, Y)
    T = _plan(X, Y, a, b, plan)
    figure, panels = new_figure(2.2 * times, 2.4, 1, times, sharex=True, sharey=True)
    both = torch.cat([X, Y]).detach().cpu()
    edges = torch.linspace(float(both[:, 0].min()), float(both[:, 0].max()), 41).numpy()
    for axes, t in zip(panels, torch.linspace(0, 1, times).tolist(), strict=True):
        points, masses = (v.detach().cpu().numpy() for v in displacement(X, Y, t, plan=T))
        color = (0.12 + 0.76 * t, 0.47 - 0.3 * t, 0.71 - 0.55 * t)
        if points.shape[1] == 1:
            axes.hist(points[:, 0], bins=edges, weights=masses, color=color)
        else:
            axes.scatter(points[:, 0], points[:, 1], s=12 * masses / masses.mean(), color=[color], linewidth=0)
            axes.set_aspect("equal")
        axes.set_title(f"t = {t:.2g}")
    return figure
