"""Barycenters beside POT and closed forms."""

from __future__ import annotations

import ot
import pytest
import torch
from torch.autograd import gradcheck

from benthic.transport import barycenter, free_support_barycenter, sinkhorn
from tests.transport.problems import clouds, masses, squared

pytestmark = pytest.mark.spec("B-04")
GRID = torch.linspace(0, 1, 30, dtype=torch.float64)
COST = (GRID[:, None] - GRID) ** 2


def bumps(*centers, width=0.08):
    heights = torch.stack([torch.exp(-((GRID - center) ** 2) / (2 * width**2)) + 1e-6 for center in centers])
    return heights / heights.sum(1, keepdim=True)


@pytest.mark.parametrize("epsilon", [0.05, 0.005])
def test_fixed_support_is_that_of_pot(epsilon):
    measures = bumps(0.2, 0.5, 0.8)  # equal weights: with others POT keeps a trace of its start
    found = barycenter(measures, COST, epsilon, tol=1e-14, max_iter=20_000)
    theirs = ot.bregman.barycenter(measures.mT.contiguous(), COST, epsilon, stopThr=1e-14, numItermax=20_000)
    torch.testing.assert_close(found.masses, theirs, rtol=0, atol=1e-10)
    assert found.converged and abs(float(found.masses.sum()) - 1) < 1e-10


def test_debiased_is_that_of_pot():
    measures = bumps(0.2, 0.7)
    found = barycenter(measures, COST, 0.02, debiased=True, max_iter=2000)
    theirs = ot.bregman.barycenter_debiased(
        measures.mT.contiguous(), COST, 0.02, stopThr=1e-12, numItermax=2000, warn=False
    )
    # the correction converges slowly: both still move by about 5e-7 in an iteration
    torch.testing.assert_close(found.masses, theirs, rtol=0, atol=2e-6)


def test_debiasing_removes_the_blur():
    measures = bumps(0.3, 0.7)

    def deviation(p):
        mean = (p * GRID).sum()
        return float((p * (GRID - mean) ** 2).sum().sqrt())

    truth = deviation(bumps(0.5)[0])
    blurred, sharp = (deviation(barycenter(measures, COST, 0.02, debiased=d).masses) for d in (False, True))
    assert blurred > 1.3 * truth and abs(sharp - truth) < 0.03 * truth


def test_it_minimizes_the_mean_entropic_cost():
    """The objective of Bregman projections: entropy of the plans, not relative to the product."""
    measures, w, eps = bumps(0.3, 0.6), torch.tensor([0.4, 0.6], dtype=torch.float64), 0.05
    found = barycenter(measures, COST, eps, w, tol=1e-13).masses

    def objective(q):
        total = 0
        for weight, p in zip(w, measures, strict=True):
            T = sinkhorn(q, p, COST, eps, tol=1e-12, max_iter=5000).plan
            total += weight * ((T * COST).sum() + eps * (T * T.log()).sum())
        return float(total)

    stream, best = torch.Generator().manual_seed(0), objective(found)
    for _ in range(3):
        other = found * torch.exp(0.1 * torch.randn(30, generator=stream, dtype=torch.float64))
        assert objective(other / other.sum()) > best


def test_images_take_one_axis_at_a_time():
    stream = torch.Generator().manual_seed(0)
    images = torch.rand(3, 6, 5, generator=stream, dtype=torch.float64)
    images = images / images.sum((1, 2), keepdim=True)
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij")
    pixels = torch.stack([rows, columns], -1).reshape(-1, 2).double() / 6
    for debiased in (False, True):
        found = barycenter(images, epsilon=0.03, debiased=debiased, max_iter=50)
        flat = barycenter(images.reshape(3, -1), squared(pixels, pixels), 0.03, debiased=debiased, max_iter=50)
        torch.testing.assert_close(found.masses.reshape(-1), flat.masses, rtol=0, atol=1e-12)


def test_small_epsilon_and_empty_bins_stay_finite():
    measures = torch.zeros(2, 30, dtype=torch.float32)
    measures[0, 4], measures[1, 20] = 1, 1
    found = barycenter(measures, COST.float(), 1e-4).masses
    assert torch.isfinite(found).all() and int(found.argmax()) == 12


def test_gradient_through_the_iterations():
    logits = bumps(0.3, 0.6)[:, ::5].log().requires_grad_()
    assert gradcheck(lambda z: barycenter(z.softmax(1), COST[::5, ::5], 0.1, tol=0, max_iter=20).masses, logits)


def test_free_support_is_that_of_pot():
    stream = torch.Generator().manual_seed(0)
    sets = [clouds(12 + k, 1, seed=k)[0] + k for k in range(3)]
    weights = [masses(len(Y), stream) for Y in sets]
    start = torch.randn(10, 2, generator=stream, dtype=torch.float64)
    w = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    found = free_support_barycenter(sets, start, w, masses=weights, tol=1e-12)
    theirs = ot.lp.free_support_barycenter(sets, weights, start, weights=w, stopThr=1e-20, numItermax=100)
    torch.testing.assert_close(found.points, theirs, rtol=0, atol=1e-8)
    assert found.converged


def test_free_support_of_translated_copies_is_a_copy():
    X, _, _, _ = clouds(15, 1)
    found = free_support_barycenter([X, X + 4], X, [0.75, 0.25])
    torch.testing.assert_close(found.points, X + 1, rtol=0, atol=1e-12)
    assert float(found.value) == pytest.approx(0.75 * 2 * 1 + 0.25 * 2 * 9)  # squared lengths of the moves in the plane
    drawn = free_support_barycenter([X, X + 4], 8, seed=0)
    assert drawn.points.shape == (8, 2)


def test_free_support_with_entropy_is_close_to_exact():
    sets = [clouds(8, 1, seed=k)[0] + k for k in range(2)]
    plain = free_support_barycenter(sets, sets[0])
    soft = free_support_barycenter(sets, sets[0], epsilon=0.05, tol=1e-4)
    assert float((plain.points.mean(0) - soft.points.mean(0)).abs().max()) < 1e-6  # the mean of the means
    assert float(soft.value) == pytest.approx(float(plain.value), rel=0.1)
