"""The line: quantiles beside SciPy, POT, linear programs and closed forms."""

from __future__ import annotations

import math

import numpy as np
import ot
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck
from torch.distributions import Exponential, Laplace, Normal, Uniform

from benthic.transport import (
    barycenter_1d,
    displacement_1d,
    exact,
    wasserstein_1d,
    wasserstein_between,
    wasserstein_from_cdf,
)
from tests.transport.problems import masses

pytestmark = pytest.mark.spec("B-04")
STREAM = torch.Generator().manual_seed(0)
X, Y = (
    torch.randn(17, generator=STREAM, dtype=torch.float64),
    1 + torch.randn(23, generator=STREAM, dtype=torch.float64),
)
A, B = masses(17, STREAM), masses(23, STREAM)


@pytest.mark.parametrize("p", [1.0, 1.7, 2.0, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_distance_is_that_of_the_program_and_of_pot(p, weighted):
    a, b = (A, B) if weighted else (None, None)
    found = wasserstein_1d(X, Y, p, a, b)
    truth = exact(a, b, (X[:, None] - Y).abs() ** p).value ** (1 / p)
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-10)
    theirs = ot.wasserstein_1d(X, Y, a, b, p=p) ** (1 / p)
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-12)


def test_first_order_is_that_of_scipy():
    truth = stats.wasserstein_distance(X.numpy(), Y.numpy(), A.numpy(), B.numpy())
    assert abs(float(wasserstein_1d(X, Y, 1, A, B)) - truth) < 1e-12


def test_infinite_order_is_the_limit_and_the_longest_move():
    limit = wasserstein_1d(X, Y, math.inf, A, B)
    assert abs(float(wasserstein_1d(X, Y, 2000, A, B)) - float(limit)) < 5e-3 * float(limit)
    x, y = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 4.0])
    assert float(wasserstein_1d(x, y, math.inf)) == 3.0


def test_area_between_distribution_functions_holds_for_p_one_only():
    """Point masses at 0 and 4: W_p = 4 for every p, but the p-th power of a difference of one stays one."""
    zero, four = torch.zeros(1), torch.full((1,), 4.0)
    assert [float(wasserstein_1d(zero, four, p)) for p in (1, 2, 3)] == pytest.approx([4, 4, 4])
    grid = torch.linspace(-1, 5, 601, dtype=torch.float64)
    steps = [(grid >= at).double() for at in (0, 4)]
    area = float(wasserstein_from_cdf(*steps, grid, steps=True))
    assert area == pytest.approx(4, abs=0.011)  # the grid's spacing
    assert math.sqrt(area) == pytest.approx(2, abs=0.01)  # what the formula would say for p = 2, and W_2 is 4


def test_distribution_functions_of_samples_give_the_first_order():
    grid = torch.cat([X, Y]).sort().values
    F, G = ((values[:, None] <= grid).double().mul(w[:, None]).sum(0) for values, w in ((X, A), (Y, B)))
    torch.testing.assert_close(
        wasserstein_from_cdf(F, G, grid, steps=True), wasserstein_1d(X, Y, 1, A, B), rtol=0, atol=1e-12
    )


def test_distribution_functions_that_cross():
    grid = torch.linspace(-1, 2, 7, dtype=torch.float64)  # lines between 0 and 1, and between -0.5 and 1.5
    F, G = grid.clamp(0, 1), ((grid + 0.5) / 2).clamp(0, 1)
    truth = integrate.quad(
        lambda x: abs(np.clip(x, 0, 1) - np.clip((x + 0.5) / 2, 0, 1)), -1, 2, points=[-0.5, 0, 0.5, 1, 1.5]
    )[0]
    assert abs(float(wasserstein_from_cdf(F, G, grid)) - truth) < 1e-12


def test_batch_is_a_loop_and_dtype_is_kept():
    x, y = torch.stack([X, 2 * X, X - 1]), torch.stack([Y, Y**2, Y + 3])
    for a, b in ((None, None), (A, B), (torch.stack([A, A.flip(0), A]), B)):
        together = wasserstein_1d(x, y, 2, a, b)
        for k in range(3):
            one = a[k] if a is not None and a.ndim == 2 else a
            torch.testing.assert_close(together[k], wasserstein_1d(x[k], y[k], 2, one, b))
    assert wasserstein_1d(X.float(), Y.float(), 2).dtype == torch.float32


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, math.inf])
def test_gradients(p):
    x, y = X[:6].clone().requires_grad_(), Y[:5].clone().requires_grad_()
    assert gradcheck(lambda x, y: wasserstein_1d(x, y, p), (x, y))
    assert gradcheck(lambda x: wasserstein_1d(x, Y[:6], p), x)
    if p < math.inf:
        logits = [masses(6, STREAM).log().requires_grad_(), masses(5, STREAM).log().requires_grad_()]
        assert gradcheck(lambda la, lb: wasserstein_1d(X[:6], Y[:5], p, la.softmax(0), lb.softmax(0)), logits)


def test_gradient_at_equal_samples_is_finite():
    x = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(wasserstein_1d(x, X, 2), x)
    assert torch.isfinite(slope).all()


def test_gaussians_have_the_closed_form():
    m, s = torch.tensor([0.0, -1.0], dtype=torch.float64), torch.tensor([1.0, 0.3], dtype=torch.float64)
    found = wasserstein_between(Normal(m, s), Normal(m.flip(0) + 2, 2 * s))
    truth = ((m.flip(0) + 2 - m) ** 2 + s**2).sqrt()
    torch.testing.assert_close(found, truth, rtol=0, atol=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distributions_against_quadrature(p):
    P, Q = (
        Exponential(torch.tensor(1.3, dtype=torch.float64)),
        Uniform(torch.tensor(-2.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)),
    )
    truth = integrate.quad(lambda u: abs(-math.log1p(-u) / 1.3 + 2 - 2 * u) ** p, 0, 1, limit=500, epsabs=1e-13)[0] ** (
        1 / p
    )
    assert abs(float(wasserstein_between(P, Q, p)) - truth) < 1e-9


def test_crossing_quantiles_cost_digits_but_few():
    P, Q = (Laplace(torch.tensor(0.0, dtype=torch.float64), torch.tensor(s, dtype=torch.float64)) for s in (1.0, 2.0))
    assert abs(float(wasserstein_between(P, Q, 1)) - 1.0) < 1e-5  # E|2 Z - Z| = E|Z| = 1


def test_gradient_between_distributions():
    m = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    s = torch.tensor(1.4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda m, s: wasserstein_between(Normal(m, s), Normal(0 * m, 1 + 0 * s)), (m, s))


def test_displacement_runs_at_constant_speed():
    whole = float(wasserstein_1d(X, Y, 2, A, B))
    for s, t in ((0.0, 0.3), (0.3, 0.8), (0.8, 1.0)):
        at_s, at_t = displacement_1d(X, Y, s, A, B), displacement_1d(X, Y, t, A, B)
        between = wasserstein_1d(at_s.points, at_t.points, 2, at_s.masses, at_t.masses)
        assert abs(float(between) - (t - s) * whole) < 1e-12
    assert (
        abs(
            float(
                wasserstein_1d(
                    displacement_1d(X, Y, 0.0, A, B).points, X, 2, displacement_1d(X, Y, 0.0, A, B).masses, A
                )
            )
        )
        < 1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_barycenter_minimizes(weighted):
    w = torch.tensor([0.3, 0.7], dtype=torch.float64)
    found = barycenter_1d([X, Y], w, masses=[A, B] if weighted else None)
    a, b = (A, B) if weighted else (None, None)

    def objective(points):
        pairs = ((X, a), (Y, b))
        return sum(k * wasserstein_1d(points, z, 2, found.masses, m) ** 2 for k, (z, m) in zip(w, pairs, strict=True))

    torch.testing.assert_close(found.masses.sum(), torch.tensor(1.0, dtype=torch.float64))
    # on a geodesic: W(x, bar) = w_y W(x, y), so the objective is w_x w_y W^2
    torch.testing.assert_close(objective(found.points), 0.21 * wasserstein_1d(X, Y, 2, a, b) ** 2, rtol=0, atol=1e-12)
    for k in range(4):
        noise = 0.01 * torch.randn(len(found.points), generator=STREAM, dtype=torch.float64)
        assert objective(found.points + noise) > objective(found.points), k


def test_barycenter_of_gaussians_averages_mean_and_deviation():
    u = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    laws = [Normal(0.0, 1.0), Normal(4.0, 3.0)]
    points = barycenter_1d([law.icdf(u) for law in laws]).points
    torch.testing.assert_close(points, Normal(2.0, 2.0).icdf(u), rtol=0, atol=1e-12)
