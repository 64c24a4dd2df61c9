"""Implicit gradients of entropic transport against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from benthic.transport import PointCloud, sinkhorn, sinkhorn_divergence
from benthic.transport import costs as costs_module
from tests.transport.problems import clouds, squared

pytestmark = pytest.mark.spec("B-04")
SHARP = {"tol": 1e-14, "max_iter": 5000}


def leaves(n=5, m=4):
    """Logits of masses and points, all requiring gradients; masses from logits stay on the simplex."""
    X, Y, a, b = clouds(n, m)
    return [value.requires_grad_() for value in (a.log(), b.log(), X, Y)]


@pytest.mark.parametrize("what", ["value", "plan", "f", "g", "cost"])
@pytest.mark.parametrize("rho", [None, 0.7])
def test_gradients_to_masses_and_cost(what, rho):
    la, lb, X, Y = leaves(4, 3)
    C = squared(X, Y).detach().requires_grad_()

    def solve(la, lb, C):
        a, b = (la.softmax(0), lb.softmax(0)) if rho is None else (la.exp(), 2 * lb.exp())
        return getattr(sinkhorn(a, b, C, 0.3, rho=rho, **SHARP), what)

    assert gradcheck(solve, (la, lb, C))


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("limit", [1 << 20, 8])
@pytest.mark.parametrize("what", ["value", "plan", "f", "cost"])
def test_gradients_to_points(monkeypatch, what, limit, p):
    monkeypatch.setitem(costs_module._ENTRIES, "cpu", limit)  # stored, and by blocks of two rows
    la, lb, X, Y = leaves(4, 3)

    def solve(la, lb, X, Y):
        return getattr(sinkhorn(la.softmax(0), lb.softmax(0), PointCloud(X, Y, p), 0.3, **SHARP), what)

    assert gradcheck(solve, (la, lb, X, Y))


def test_batched_gradients_are_a_loop():
    la, _, X, Y = leaves()
    C = torch.stack([squared(X, Y), 3 * squared(X, Y)]).detach().requires_grad_()
    weights = torch.rand(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (together,) = torch.autograd.grad((sinkhorn(la.softmax(0), None, C, 0.2, **SHARP).plan * weights).sum(), C)
    for k in range(2):
        one = C[k].detach().requires_grad_()
        (alone,) = torch.autograd.grad((sinkhorn(la.softmax(0), None, one, 0.2, **SHARP).plan * weights[k]).sum(), one)
        torch.testing.assert_close(together[k], alone, rtol=0, atol=1e-9)


def test_gradient_of_the_value_is_the_plan_and_the_potentials():
    X, Y, a, b = clouds(8, 9)
    a, b, C = a.requires_grad_(), b.requires_grad_(), squared(X, Y).requires_grad_()
    found = sinkhorn(a, b, C, 0.1, tol=1e-12)
    of_a, of_b, of_cost = torch.autograd.grad(found.value, (a, b, C))
    torch.testing.assert_close(of_cost, found.plan.detach(), rtol=0, atol=1e-15)
    # potentials are known up to a constant, which the constraint of total mass one does not feel
    for slope, potential in ((of_a, found.f), (of_b, found.g)):
        torch.testing.assert_close(slope - slope.mean(), (potential - potential.mean()).detach(), rtol=0, atol=1e-12)


def test_second_derivatives_of_the_value():
    la, lb, X, Y = leaves(4, 3)
    C = squared(X, Y).detach().requires_grad_()
    assert gradgradcheck(lambda la, lb, C: sinkhorn(la.softmax(0), lb.softmax(0), C, 0.3, **SHARP).value, (la, lb, C))


def test_second_derivatives_of_the_value_in_points():
    _, _, X, Y = leaves(3, 3)
    assert gradgradcheck(lambda X, Y: sinkhorn(None, None, (X, Y), 0.3, **SHARP).value, (X, Y))
    assert gradgradcheck(lambda X: sinkhorn(None, None, (X, Y.detach()), 0.3, **SHARP).value, (X,))


def test_gradients_with_points_without_mass_are_finite():
    X, Y, a, b = clouds(6, 5)
    a, b = a.clone(), b.clone()
    a[2], b[1] = 0, 0
    a, b = (a / a.sum()).requires_grad_(), (b / b.sum()).requires_grad_()
    C = squared(X, Y).requires_grad_()
    found = sinkhorn(a, b, C, 0.1, tol=1e-13)
    weights = torch.rand(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for target in (found.value, (found.plan * weights).sum(), found.f.square().sum()):
        for gradient in torch.autograd.grad(target, (a, b, C), retain_graph=True):
            assert torch.isfinite(gradient).all()
    (of_cost,) = torch.autograd.grad((found.plan * weights).sum(), C, retain_graph=True)
    assert not of_cost[2].any() and not of_cost[:, 1].any()


@pytest.mark.parametrize("rho", [None, 0.5])
def test_gradient_of_the_divergence(rho):
    _, _, X, Y = leaves()
    assert gradcheck(lambda X, Y: sinkhorn_divergence(X, Y, 0.3, rho=rho, **SHARP), (X, Y))


def test_descent_on_the_divergence_moves_one_cloud_onto_another():
    X, Y, _, _ = clouds(20, 20)
    X = X.requires_grad_()
    start = float(sinkhorn_divergence(X, Y, 0.05).detach())
    for _ in range(15):
        (slope,) = torch.autograd.grad(sinkhorn_divergence(X, Y, 0.05, tol=1e-6), X)
        X = (X - 20 * 0.5 * slope).detach().requires_grad_()  # half a Newton step of the squared distance
    assert float(sinkhorn_divergence(X, Y, 0.05).detach()) < 5e-3 * start


def test_float32_gradients_follow_float64():
    X, Y, a, b = clouds(12, 15)
    slopes = []
    for dtype in (torch.float64, torch.float32):
        C = squared(X, Y).to(dtype).requires_grad_()
        plan = sinkhorn(a.to(dtype), b.to(dtype), C, 0.2, tol=1e-6).plan
        slopes.append(torch.autograd.grad(plan.square().sum(), C)[0].double())
    torch.testing.assert_close(slopes[1], slopes[0], rtol=0, atol=1e-4 * float(slopes[0].abs().max()))
