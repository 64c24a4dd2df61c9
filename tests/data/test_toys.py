from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from benthic.base.errors import InvalidInput
from benthic.data import toys
from benthic.data.planar import Curves

NAMES = list(toys.TOYS)


def grid(toy: toys.Toy, cells: int) -> tuple[np.ndarray, float, list[np.ndarray]]:
    """Midpoints of a grid over the box of a toy, the area of a cell, and the edges."""
    left, right, bottom, top = toy.box
    edges = [np.linspace(left, right, cells + 1), np.linspace(bottom, top, cells + 1)]
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    points = np.stack(np.meshgrid(*middles, indexing="ij"), -1).reshape(-1, 2)
    return points, (right - left) * (top - bottom) / cells**2, edges


@pytest.mark.parametrize("name", NAMES)
def test_the_density_integrates_to_one(name) -> None:
    toy = toys.toy(name)
    # the midpoint rule on a grid finer than the noise is right far beyond 1e-6, as the density vanishes at the
    # edge of the box; on the checkerboard it is exact when cells of the grid divide those of the board
    points, area, _ = grid(toy, 160)
    assert np.exp(toy.log_prob(points)).sum() * area == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_a_histogram_of_samples_follows_the_density(name) -> None:
    toy = toys.toy(name)
    n, cells, fine = 60_000, 20, 8
    points, area, _ = grid(toy, cells * fine)
    mass = (np.exp(toy.log_prob(points)) * area).reshape(cells, fine, cells, fine).sum((1, 3))
    X = toy.sample(n, seed=5)
    edges = grid(toy, cells)[2]
    counts = np.histogram2d(*X.T, bins=edges)[0]
    assert counts.sum() == n
    frequent = n * mass > 10
    observed = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(n * mass[frequent], n * mass[~frequent].sum())
    if expected[-1] < 1e-6:
        observed, expected = observed[:-1], expected[:-1]
    chi_squared = ((observed - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(chi_squared, len(expected) - 1) > 1e-4


def adaptive_log_prob(toy: Curves, x: np.ndarray) -> float:
    """The same integral by scipy's adaptive rule, one point and one curve at a time."""

    def exponent(t, part):
        return -((x - toy.curve(np.atleast_1d(t))[part]) ** 2).sum(-1) / (2 * toy.noise**2)

    places = np.linspace(*toy.span, 400)
    peak = max(exponent(places, part).max() for part in range(toy.parts))

    def integrand(t, part):
        return float(np.exp(exponent(t, part) - peak)[0] * toy.density(np.atleast_1d(t))[0])

    limits = {"points": places[::10], "limit": 400}
    total = sum(integrate.quad(integrand, *toy.span, args=(part,), **limits)[0] for part in range(toy.parts))
    return peak + np.log(total / toy.parts / (2 * np.pi * toy.noise**2))


@pytest.mark.parametrize("name", ["moons", "swiss_roll", "spirals"])
def test_the_quadrature_agrees_with_an_adaptive_one(name) -> None:
    toy = toys.toy(name)
    assert isinstance(toy, Curves)
    points = np.concatenate([toy.sample(3, seed=1), np.random.default_rng(0).uniform(-6, 6, size=(4, 2))])
    truth = [adaptive_log_prob(toy, x) for x in points]
    np.testing.assert_allclose(toy.log_prob(points), truth, atol=1e-6, rtol=0)


def test_two_lines_and_rings_against_plain_formulas() -> None:
    lines, ring = toys.two_lines(gap=2, height=4, noise=0.5), toys.rings_of_gaussians(k=3, noise=0.3)
    X = np.random.default_rng(0).normal(size=(50, 2)) * 2
    along = (stats.norm.cdf(X[:, 1] + 2, scale=0.5) - stats.norm.cdf(X[:, 1] - 2, scale=0.5)) / 4
    across = (stats.norm.pdf(X[:, 0], -1, 0.5) + stats.norm.pdf(X[:, 0], 1, 0.5)) / 2
    np.testing.assert_allclose(np.exp(lines.log_prob(X)), along * across, rtol=1e-9)
    centers = [(2 * np.cos(a), 2 * np.sin(a)) for a in 2 * np.pi * np.arange(3) / 3]
    mixture = sum(stats.multivariate_normal.pdf(X, c, 0.09) for c in centers) / 3
    np.testing.assert_allclose(np.exp(ring.log_prob(X)), mixture, rtol=1e-9)


def test_far_tails_stay_finite() -> None:
    for name in set(NAMES) - {"checkerboard"}:
        far = toys.toy(name).log_prob(np.array([[30.0, 40.0], [0.0, -50.0]]))
        assert np.isfinite(far).all()
        assert (far < -1000).all()


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_gives_one_sample(name) -> None:
    toy = toys.toy(name)
    np.testing.assert_array_equal(toy.sample(20, seed=3), toy.sample(20, seed=3))
    assert not np.array_equal(toy.sample(20, seed=3), toy.sample(20, seed=4))
    assert toy.sample(20).shape == (20, 2)
    assert toy.sample(20).dtype == np.float64


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_the_most_probable_parts(name) -> None:
    toy = toys.toy(name)
    X, part = toy.draw(3000, seed=0)
    right = (toy.labels(X) == part).mean()
    # no rule beats the most probable part, whose expected success is the mean of its posterior probability
    logs = toy.part_log_prob(torch.from_numpy(X))
    expected = float(torch.exp(logs.max(1).values - logs.logsumexp(1)).mean())
    assert right == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 3000))
    np.testing.assert_array_equal(np.unique(part), np.arange(toy.parts))


@pytest.mark.parametrize("name", ["rings_of_gaussians", "moons", "spirals", "two_lines"])
def test_tensors_give_the_gradient_of_the_log_density(name) -> None:
    toy = toys.toy(name)
    X = torch.from_numpy(toy.sample(5, seed=2)).requires_grad_()
    assert torch.autograd.gradcheck(toy.log_prob, (X,))


def test_bad_settings_say_what_would_work() -> None:
    with pytest.raises(InvalidInput, match=r"no toy 'moon'; did you mean 'moons'\?"):
        toys.toy("moon")
    with pytest.raises(InvalidInput, match=r"toys\.moons: noise is 0; it must be positive"):
        toys.moons(noise=0)
    with pytest.raises(InvalidInput, match=r"shape \(4, 3\)"):
        toys.moons().log_prob(np.zeros((4, 3)))
