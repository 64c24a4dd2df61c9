"""Poisson flow: the field against direct sums, the half-sphere, the kernel, and samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import Denoiser, exact_denoiser, grad_log_prob, sample
from benthic.generative.poisson import PoissonPath, empirical_field, hemisphere, hemisphere_prior, perturb
from tests.generative.diffusion.cases import LINE, MIXTURE

pytestmark = pytest.mark.spec("N-07")
LIKE = torch.empty(0, dtype=torch.float64)


@pytest.mark.parametrize("dimensions", [1.0, 2.0, 64.0])
def test_the_field_is_the_sum_over_charges(dimensions):
    """Coulomb's law in N + D dimensions, charge by charge, in NumPy; the direction is the same."""
    rng = np.random.default_rng(0)
    data, x, r = rng.normal(size=(50, 3)), rng.normal(size=(4, 3)), rng.uniform(0.5, 2, size=4)
    along, away = empirical_field(torch.tensor(x), torch.tensor(r), torch.tensor(data), dimensions)
    for i in range(4):
        total = np.zeros(4)
        for y in data:
            line = np.append(x[i] - y, r[i])
            total += line / np.linalg.norm(line) ** (3 + dimensions)
        found = np.append(along[i].numpy(), float(away[i]))
        np.testing.assert_allclose(found, total / np.linalg.norm(total), rtol=1e-10)


def test_the_field_has_no_sources_off_the_plane():
    """The unnormalized field for D = 1 has no divergence: that of a harmonic potential in N + 1 dimensions."""
    data = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def field(z):  # (3,) -> (3,)
        away = torch.cat([z[:2] - data, z[2].expand(20, 1)], 1)
        return (away / away.norm(dim=1, keepdim=True) ** 3).sum(0)

    point = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64)
    jacobian = torch.func.jacrev(field)(point)
    assert abs(float(jacobian.trace())) < 1e-12
    along, away = empirical_field(point[None, :2], float(point[2]), data)
    value = field(point)
    torch.testing.assert_close(torch.cat([along[0], away]), value / value.norm())


def test_fields_of_pictures_and_far_points():
    data = torch.randn(10, 1, 4, 4)
    along, away = empirical_field(1e6 + torch.zeros(3, 1, 4, 4), torch.tensor([1.0, 1e3, 1e6]), data)
    assert along.shape == (3, 1, 4, 4) and bool(along.isfinite().all())
    torch.testing.assert_close(along.flatten(1).square().sum(1) + away.square(), torch.ones(3))
    along, away = empirical_field(data, 1e-3, data)  # beside a charge the field points away from it
    assert bool((away > 0.99).all())


def test_half_spheres_are_even():
    x, z = hemisphere((20_000, 2), LIKE, torch.Generator().manual_seed(0))
    torch.testing.assert_close(x.square().sum(1) + z.square(), torch.ones(20_000, dtype=torch.float64))
    assert float(z.min()) > 0
    assert stats.kstest(z.numpy(), "uniform").pvalue > 1e-3  # Archimedes: heights on a sphere in space are uniform
    assert stats.kstest(np.arctan2(*x.numpy().T), stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-3


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_prior_of_the_half_sphere(size):
    """Draws through the half-sphere, the process's own draws, and the density 2 z / (S_N (|x|² + z²)^((N+1)/2))."""
    z_max = 3.0
    first = hemisphere_prior((5000, size), z_max, LIKE, torch.Generator().manual_seed(1))
    path = PoissonPath(dimensions=1.0, t_max=z_max)
    second = path.draw_prior((5000, size), LIKE, torch.Generator().manual_seed(2))
    assert stats.ks_2samp(first.norm(dim=1).numpy(), second.norm(dim=1).numpy()).pvalue > 1e-3
    area = 2 * math.pi ** ((size + 1) / 2) / math.gamma((size + 1) / 2)
    x = first[:5]
    density = 2 * z_max / (area * (x.square().sum(1) + z_max**2) ** ((size + 1) / 2))
    torch.testing.assert_close(path.prior_log_prob(x), density.log())


def test_radii_of_the_kernel_are_those_of_the_beta_law():
    """PFGM++: R = r √(B / (1 − B)) with B ~ Beta(N/2, D/2)."""
    path = PoissonPath(dimensions=5.0)
    noise = 0.7 * path.draw_noise((4000, 3), LIKE, torch.Generator().manual_seed(0))
    radius = float(path.radius(0.7))
    ratio = noise.square().sum(1) / radius**2
    assert stats.kstest((ratio / (1 + ratio)).numpy(), stats.beta(1.5, 2.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dimensions", [1.0, 7.0, 4096.0])
def test_expected_data_and_density_by_quadrature(dimensions):
    path = PoissonPath(dimensions=dimensions)
    truth = exact_denoiser(LINE, path)
    weights, means, variances = LINE
    sigma = 0.6
    for x in (0.4, 6.0):

        def joint(y, power=0, x=x):
            data = sum(
                w * stats.norm.pdf(y, m[0], math.sqrt(v[0][0]))
                for w, m, v in zip(weights, means, variances, strict=True)
            )
            return y**power * data * stats.t.pdf(x, dimensions, y, sigma)

        mass = integrate.quad(joint, -6, 6, limit=200, epsabs=0, epsrel=1e-10)[0]
        first = integrate.quad(joint, -6, 6, (1,), limit=200, epsabs=0, epsrel=1e-10)[0]
        point = torch.tensor([[x]], dtype=torch.float64)
        assert float(truth.log_prob(point, sigma)) == pytest.approx(math.log(mass), abs=1e-7)
        assert float(truth.data(point, sigma)) == pytest.approx(first / mass, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1.0, 8.0, 128.0])
def test_scores_are_gradients_of_the_density(dimensions):
    """Of the density in closed form, by autograd; the expected data alone would be off by a factor of 20 for D = 1."""
    path = PoissonPath(dimensions=dimensions)
    truth, stream = exact_denoiser(MIXTURE, path), torch.Generator().manual_seed(0)
    for sigma in (0.05, 0.6, 20.0):
        x0 = truth.draw(6, seed=0)
        x = path.mix(x0, path.draw_noise(x0.shape, x0, stream), sigma)
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(truth.log_prob(leaf, sigma).sum(), leaf)
        torch.testing.assert_close(grad_log_prob(truth, x, sigma), slope, rtol=1e-6, atol=1e-9)
        every = torch.full((6,), sigma, dtype=torch.float64)
        torch.testing.assert_close(grad_log_prob(truth, x, every), slope, rtol=1e-6, atol=1e-9)


def test_scores_of_pictures_estimate_the_trace():
    """Normal noise about a point: E[y | x] is that point, and the score of Student's law is known."""
    path = PoissonPath(dimensions=16.0)
    still = Denoiser(path, lambda x, level: torch.zeros_like(x), "data")
    x = 0.3 * torch.randn(2, 1, 7, 7, dtype=torch.float64)
    squares = x.flatten(1).square().sum(1).reshape(-1, 1, 1, 1)
    exact = -(16 + 49) * x / (squares + 16 * 0.5**2)
    torch.testing.assert_close(grad_log_prob(still, x, 0.5), exact)


def test_many_dimensions_lead_to_normal_noise():
    x = torch.randn(5, 1, dtype=torch.float64)
    many, normal = exact_denoiser(LINE, PoissonPath(dimensions=1e5)), exact_denoiser(LINE, "edm")
    torch.testing.assert_close(many.data(x, 0.8), normal.data(x, 0.8), rtol=1e-3, atol=1e-3)


def test_the_empirical_field_generates_its_data():
    """The backward equation ends on the charges, each as often as the others."""
    data = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    path = PoissonPath(dimensions=1.0, t_min=0.01, t_max=60.0)

    def field(x, level):
        along, away = empirical_field(x, path.radius(level.exp()), data)
        return along, away

    denoiser = Denoiser(path, field, "field")
    for sampler in ("poisson_ode", "heun"):
        x = sample(denoiser, (600, 2), sampler=sampler, steps=40, seed=0, dtype=torch.float64)
        distance, which = torch.cdist(x, data).min(1)
        assert float(distance.quantile(0.9)) < 0.05
        share = torch.bincount(which, minlength=3) / 600
        assert float((share - 1 / 3).abs().max()) < 4.5 * math.sqrt(2 / 9 / 600)


def test_training_points_reach_from_near_to_far():
    data = torch.zeros(4000, 3, dtype=torch.float64)
    x, z = perturb(data, sigma=0.01, reach=0.03, powers=300, generator=torch.Generator().manual_seed(0))
    assert x.shape == data.shape and float(z.min()) > 0
    most = 0.01 * 1.03**300
    logs = (z / 0.01).log()
    assert float(logs.max()) < math.log(6 * most / 0.01) and float(logs.quantile(0.1)) < 1.5
    ratio = x.norm(dim=1) / z  # powers cancel: the ratio of a chi with 3 degrees of freedom and one with 1
    assert stats.kstest((ratio.square() / 3).numpy(), stats.f(3, 1).cdf).pvalue > 1e-3
    with pytest.raises(InvalidInput, match="positive"):
        perturb(data, sigma=0.0)
    with pytest.raises(InvalidInput, match="one shape"):
        empirical_field(torch.zeros(2, 3), 1.0, torch.zeros(2, 2))
    with pytest.raises(InvalidInput, match="z_max"):
        hemisphere_prior((2, 2), 0.0, LIKE)
