"""Random fields: covariances by Monte Carlo, one spectrum for all sizes, and clear refusals."""

from __future__ import annotations

import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.gp import random_field
from benthic.kernels import RBF, Laplace, Linear, Matern, RationalQuadratic, White

N = 8_000


def covariance_is_right(kernel, fields, steps, most=4.5):
    n, h, w = fields.shape
    axes = [torch.arange(size, dtype=torch.float64) * step for size, step in zip((h, w), steps, strict=True)]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    K, flat = kernel(points), fields.reshape(n, -1)
    error = ((K.square() + K.diagonal()[:, None] * K.diagonal()) / n).sqrt()
    scores = (flat.T @ flat / n - K) / error
    assert scores.abs().max() < 6  # of a few hundred numbers that are nearly standard normal
    assert scores.square().mean() < most  # they move together, like eight independent ones: 1 ± 0.5
    assert (flat.mean(0) / (K.diagonal() / n).sqrt()).abs().max() < 6


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.5),
        2.0 * Matern(1.5, torch.tensor([2.0, 1.0], dtype=torch.float64)) + White(0.3),
        Matern(0.5, 2.0) * 0.5,
        Laplace(2.0),
        RationalQuadratic(1.0, 2.0),
    ],
    ids=repr,
)
def test_covariance_by_fourier_transform(kernel):
    steps = (1.0, 0.5)
    covariance_is_right(kernel, random_field(kernel, (5, 6), N, spacing=steps, seed=0, method="circulant"), steps)


@pytest.mark.spec("F-07")
def test_covariance_by_a_dense_factor():
    kernel = Linear(2.0) + RBF(1.0)
    covariance_is_right(kernel, random_field(kernel, (4, 5), N, seed=1), (1.0, 1.0))


def test_a_long_length_grows_the_torus_and_a_longer_one_falls_back():
    fields = random_field(RBF(10.0), (5, 6), 1000, seed=2, method="circulant")
    covariance_is_right(RBF(10.0), fields, (1.0, 1.0), 17)  # nearly one number: chi-square, one degree of freedom
    far = random_field(RBF(2000.0), (8, 8), 3, seed=0)
    assert far.shape == (3, 8, 8) and (far.std(dim=(1, 2)) < 0.05).all()


def test_seeds_decide_and_large_grids_are_quick():
    one, two = (random_field(Matern(1.5, 20.0), (256, 200), 2, seed=seed) for seed in (4, 4))
    assert torch.equal(one, two) and one.shape == (2, 256, 200)
    assert not torch.equal(one, random_field(Matern(1.5, 20.0), (256, 200), 2, seed=5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rbf", (4, 4)), "kernel is 'rbf'"),
        ((RBF(1.0), (4,)), "two whole numbers"),
        ((RBF(1.0), (4, 4), 0), "n is 0"),
        ((RBF(1.0), (4, 4), 1, {"spacing": -1.0}), "spacing is -1.0"),
        ((RBF(1.0), (4, 4), 1, {"method": "fft"}), "method is 'fft'"),
        ((Linear(1.0), (4, 4), 1, {"method": "circulant"}), "not stationary"),
        ((Linear(1.0), (200, 200), 1), "dense factor of 11.9 GiB"),
        ((RBF(1e5), (100, 100), 1), "too long for the grid"),
    ],
)
def test_unusable_arguments(arguments, words):
    *plain, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(InvalidInput, match=words):
        random_field(*plain, **options)
