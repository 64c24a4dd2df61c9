"""Sliced distances beside closed forms and Monte-Carlo error."""

from __future__ import annotations

import math

import ot
import pytest
import torch
from torch.autograd import gradcheck

from benthic.transport import max_sliced, sliced, wasserstein, wasserstein_1d
from tests.transport.problems import clouds

pytestmark = pytest.mark.spec("B-04")


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_same_directions_as_pot_give_the_same(p):
    X, Y, a, b = clouds(20, 25, 4)
    theta = torch.nn.functional.normalize(
        torch.randn(4, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=0
    )
    theirs = ot.sliced_wasserstein_distance(X, Y, a, b, p=p, projections=theta)
    torch.testing.assert_close(sliced(X, Y, p, theta.T, a=a, b=b).value, theirs, rtol=0, atol=1e-12)


def test_translation_within_its_error_bar():
    """A translation by v has SW_2 = |v| / sqrt(d)."""
    X, _, _, _ = clouds(10, 1, 5)
    shift = torch.tensor([1.0, 2.0, 0.0, -2.0, 0.0], dtype=torch.float64)
    truth = 3 / math.sqrt(5)
    found = [sliced(X, X + shift, 2, 400, seed=seed) for seed in range(40)]
    scores = torch.tensor([float((one.value - truth) / one.stderr) for one in found])
    assert 0.6 < float(scores.std()) < 1.5 and abs(float(scores.mean())) < 0.6  # standard normal, 40 draws


def test_seed_decides_and_global_state_is_left_alone():
    X, Y, _, _ = clouds(10, 12, 3)
    before = torch.random.get_rng_state()
    assert sliced(X, Y, seed=3).value == sliced(X, Y, seed=3).value != sliced(X, Y, seed=4).value
    assert torch.equal(before, torch.random.get_rng_state())


def test_sliced_is_below_max_sliced_is_below_exact():
    X, Y, _, _ = clouds(15, 15, 3)
    assert sliced(X, Y, seed=0).value < max_sliced(X, Y, seed=0).value <= wasserstein(X, Y) + 1e-12


def test_max_sliced_finds_the_best_angle():
    X, Y, a, b = clouds(15, 20, 2)
    angles = torch.linspace(0, math.pi, 3001, dtype=torch.float64)
    grid = torch.stack([angles.cos(), angles.sin()], 1)
    each = wasserstein_1d(grid @ X.T, grid @ Y.T, 2, a, b)
    found = max_sliced(X, Y, seed=0, a=a, b=b)
    assert float(found.value) > float(each.max()) - 1e-5
    assert abs(float(found.direction.norm()) - 1) < 1e-12


def test_gradients():
    X, Y, _, _ = clouds(5, 5, 3)
    assert gradcheck(lambda X, Y: sliced(X, Y, 2, 7, seed=0).value, (X.requires_grad_(), Y.requires_grad_()))
    found = max_sliced(X, Y, seed=0)
    (slope,) = torch.autograd.grad(found.value, X)
    assert torch.isfinite(slope).all() and slope.abs().sum() > 0


def test_equal_clouds_and_one_direction():
    X, _, _, _ = clouds(10, 1, 3)
    zero = sliced(X, X, seed=0)
    assert zero.value == 0 and zero.stderr == 0
    assert math.isnan(sliced(X, X + 1, 2, 1, seed=0).stderr)
