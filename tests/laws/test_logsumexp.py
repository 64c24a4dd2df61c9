"""Log-sum-exp: its gradient is the softmax, its Hessian the covariance of one draw, and it is convex."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.functional import hessian

from benthic.linear.scores import respond, spread

pytestmark = pytest.mark.spec("F-02")
Z = torch.randn(200, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4


def test_the_gradient_is_the_softmax():
    z = Z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(z.logsumexp(1).sum(), z)
    torch.testing.assert_close(gradient, torch.softmax(Z, 1))
    step = 1e-6
    for c in range(7):
        move = torch.zeros(7, dtype=torch.float64)
        move[c] = step
        slope = ((Z + move).logsumexp(1) - (Z - move).logsumexp(1)) / (2 * step)
        # central differences: rounding 1e-15 / step and curvature step² / 6 both stay below 1e-8
        torch.testing.assert_close(slope, torch.softmax(Z, 1)[:, c], rtol=0, atol=1e-8)


def test_the_hessian_is_the_covariance_of_the_class():
    for z in Z[:20]:
        p = torch.softmax(z, 0)
        covariance = torch.diag(p) - torch.outer(p, p)
        torch.testing.assert_close(hessian(lambda v: v.logsumexp(0), z), covariance, rtol=0, atol=1e-12)
        eigenvalues = torch.linalg.eigvalsh(covariance)
        assert float(eigenvalues[0]) > -1e-15  # convex,
        assert float(eigenvalues[-1]) <= 0.5  # and flatter than Böhning's bound I/2
        assert float((covariance @ torch.ones(7, dtype=torch.float64)).abs().max()) < 1e-15


def test_it_is_convex_and_between_the_maximum_and_the_maximum_plus_log_k():
    a, b = Z[:100], Z[100:]
    for t in torch.linspace(0, 1, 11, dtype=torch.float64):
        between = (t * a + (1 - t) * b).logsumexp(1)
        assert bool((between <= t * a.logsumexp(1) + (1 - t) * b.logsumexp(1) + 1e-12).all())
    value, largest = Z.logsumexp(1), Z.amax(1)
    assert bool(((value >= largest) & (value <= largest + torch.log(torch.tensor(7.0, dtype=torch.float64)))).all())


@pytest.mark.parametrize("shift", [0.0, 800.0, -800.0])
def test_scores_of_any_size_give_the_same_loss(shift):
    """A constant added to all scores changes nothing; far from zero nothing overflows."""
    X = torch.ones(4, 1, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0])
    theta = torch.tensor([[1.0], [2.0], [-3.0]], dtype=torch.float64)
    plain, moved = respond(theta, X, y), respond(theta + shift, X, y)
    # rounding of a score of size s is s · 2^-53
    torch.testing.assert_close(moved.losses, plain.losses, rtol=0, atol=1e-12)
    torch.testing.assert_close(spread(moved.P, None), spread(plain.P, None), rtol=0, atol=1e-12)


def test_two_classes_far_apart_keep_their_small_losses():
    """log(1 + e^-z) for large z is e^-z, not zero."""
    X = torch.tensor([[30.0], [-30.0], [700.0], [-700.0]], dtype=torch.float64)
    losses = respond(torch.ones(1, 1, dtype=torch.float64), X, torch.tensor([1, 0, 0, 1])).losses
    torch.testing.assert_close(losses[:2], torch.exp(torch.full((2,), -30.0, dtype=torch.float64)))
    torch.testing.assert_close(losses[2:], torch.full((2,), 700.0, dtype=torch.float64))
