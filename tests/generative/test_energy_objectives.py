"""What energies are trained on, against closed forms, quadrature and counting."""

from __future__ import annotations

import math

import pytest
import torch

from benthic.generative.energy.boltzmann_network import BoltzmannNetwork
from benthic.generative.energy.networks import EnergyNetwork, LeveledEnergy, RowEnergy
from benthic.generative.energy.objectives import (
    contrastive,
    denoising,
    energy_slope,
    noise_contrastive,
    score_matching,
    sliced,
)
from benthic.generative.energy.partition import _states, log_partition

pytestmark = pytest.mark.spec("N-04")


def wavy(width=1, seed=0):
    """An energy with weights of size one, in float64."""
    torch.manual_seed(seed)
    body = RowEnergy(width, (6,), "tanh")
    torch.nn.init.normal_(body.head.weight)
    return EnergyNetwork(body, reference="normal").double()


def gradients(value, network):
    parameters = [p for p in network.parameters() if p is not getattr(network, "log_normalizer", None)]
    return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters, allow_unused=True) if g is not None])


def test_the_contrast_has_the_gradient_of_the_log_likelihood_by_quadrature():
    network = wavy()
    grid = torch.linspace(-9, 9, 4001, dtype=torch.float64)[:, None]
    x = torch.tensor([[0.7], [-1.2]], dtype=torch.float64)
    log_likelihood = (-network(x) - torch.logsumexp(-network(grid), 0) - math.log(18 / 4000)).sum()
    chances = torch.softmax(-network(grid), 0).detach()
    expected = torch.cat([contrastive(network, row.expand(len(grid), 1), grid) for row in x]) * chances.repeat(2)
    torch.testing.assert_close(gradients(-expected.sum(), network), gradients(log_likelihood, network))


def test_the_contrast_of_free_energies_has_the_gradient_of_the_log_mass_by_counting():
    torch.manual_seed(0)
    network = BoltzmannNetwork(4, 3).double()
    torch.nn.init.normal_(network.weight)
    states, x = _states(4, 0, 16, network.weight), torch.tensor([[1.0, 0, 1, 1]], dtype=torch.float64)
    chances = torch.softmax(-network(states), 0).detach()
    loss = (contrastive(network, x.expand(16, 4), states) * chances).sum()
    (found,) = torch.autograd.grad(loss, network.weight)
    step, there = 1e-6, torch.zeros_like(network.weight)
    for i in range(4):
        for j in range(3):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    network.weight[i, j] += sign * step
                    ends.append(float(-network(x)) - log_partition(network))
                    network.weight[i, j] -= sign * step
            there[i, j] = (ends[0] - ends[1]) / (2 * step)
    torch.testing.assert_close(-found, there, rtol=1e-6, atol=1e-8)


def correlated(n=500, d=3):
    torch.manual_seed(1)
    return torch.randn(n, d, dtype=torch.float64) @ torch.randn(d, d, dtype=torch.float64)


def quadratic(precision):
    return lambda x: 0.5 * torch.einsum("ni,ij,nj->n", x, 0.5 * (precision + precision.T), x)


def test_score_matching_is_least_at_the_inverse_of_the_second_moments():
    x = correlated()
    best = torch.linalg.inv(x.T @ x / len(x)).requires_grad_()
    (slope,) = torch.autograd.grad(score_matching(quadratic(best), x).mean(), best)
    assert slope.abs().max() < 1e-10
    value = score_matching(quadratic(best.detach()), x).mean()
    torch.testing.assert_close(value, -0.5 * best.detach().trace())  # ½ tr(A S A) − tr A at A = 1/S


def test_score_matching_recovers_a_precision_by_descent():
    x = correlated()
    x = x / x.std(0)
    precision = torch.eye(3, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.LBFGS([precision], max_iter=100, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = score_matching(quadratic(precision), x).mean()
        value.backward()
        return value

    optimizer.step(loss)
    torch.testing.assert_close(precision.detach(), torch.linalg.inv(x.T @ x / len(x)), rtol=1e-4, atol=1e-5)


def test_random_directions_agree_with_the_exact_trace_in_expectation():
    network, x = wavy(3), torch.randn(1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = score_matching(network, x)
    drawn = sliced(network, x.expand(20_000, 3)).detach()
    assert (drawn.mean() - exact).abs() < 4 * drawn.std() / len(drawn) ** 0.5
    assert sliced(network, x, 3).shape == exact.shape


def test_denoising_has_the_gradient_of_exact_score_matching_on_noisy_data():
    # both estimate the score of x + sigma eps: their gradients agree up to Monte-Carlo error (Vincent, 2011)
    network, sigma = wavy(2), 0.5
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40_000, 2, dtype=torch.float64, generator=generator)
    torch.manual_seed(1)
    here = gradients(denoising(network, x, torch.full((len(x), 1), sigma, dtype=x.dtype)).mean(), network)
    noisy = x + sigma * torch.randn(x.shape, dtype=x.dtype, generator=generator)
    there = sigma**2 * gradients(score_matching(network, noisy).mean(), network)
    assert (here - there).norm() < 0.03 * there.norm() + 0.005


def test_the_energy_of_a_point_at_several_levels_guesses_all_noise():
    # of a point at zero with noise s the energy is x²/(2 s²)
    x = torch.zeros(1000, 1, dtype=torch.float64)
    sigma = torch.linspace(0.1, 4.0, 1000, dtype=torch.float64)[:, None]
    assert denoising(lambda u: 0.5 * (u / sigma).square().sum(1), x, sigma).abs().max() < 1e-20


def test_levels_of_noise_share_one_energy_by_its_temperature():
    network = EnergyNetwork(RowEnergy(2, (6,), "tanh"), reference="normal", smallest=0.1).double()
    x, sigma = torch.randn(5, 2).double(), torch.tensor([[0.1], [0.2], [0.4], [0.8], [3.0]]).double()
    torch.testing.assert_close(network(x, sigma), network(x) * 0.1 / sigma[:, 0])
    torch.testing.assert_close(network(x, sigma[2, 0]), network(x) / 4)


def test_an_energy_told_the_level_begins_as_that_of_white_data_with_noise():
    """Where the body says nothing, the slope is x / (1 + sigma²), and no energy of white data guesses noise better."""
    body = LeveledEnergy((2, 9, 7), (8, 16), "silu")
    network = EnergyNetwork(body, smallest=0.1).double()
    x, sigma = torch.randn(4000, 126).double(), torch.linspace(0.1, 20.0, 4000).double()[:, None]
    told = network(x[:8], sigma[:8])
    assert (network(x[:8], sigma[100:108]) - told).abs().max() > 1e-6  # it hears the level
    torch.testing.assert_close(network(x[:8]), network(x[:8], torch.tensor(0.1)))  # the smallest unless told
    for part in (body.head, body.one):
        torch.nn.init.zeros_(part.weight)
        torch.nn.init.zeros_(part.bias)
    losses = denoising(lambda rows: network(rows, sigma), x, sigma).detach() * (1 + sigma[:, 0].square())
    expected = 0.5 * 126  # with these weights, at every level
    for group in losses.chunk(4):
        assert abs(float(group.mean()) - expected) < 5 * float(group.std()) / len(group) ** 0.5
    slope = energy_slope(lambda rows: network(rows, sigma), x)[1]
    torch.testing.assert_close(slope, x / (1 + sigma.square()))


def test_noise_contrast_recovers_a_normalizer():
    torch.manual_seed(0)
    scale, d = 0.7, 2
    x = scale * torch.randn(20_000, d, dtype=torch.float64)
    noise = torch.randn(20_000, 4, d, dtype=torch.float64)
    precision = torch.ones((), dtype=torch.float64, requires_grad=True)
    constant = torch.zeros((), dtype=torch.float64, requires_grad=True)

    def log_ratio(u):
        normal = -0.5 * (u.square() + math.log(2 * math.pi)).sum(-1)
        return -0.5 * precision * u.square().sum(-1) - constant - normal

    optimizer = torch.optim.LBFGS([precision, constant], max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = noise_contrastive(log_ratio, x, noise).mean()
        value.backward()
        return value

    optimizer.step(loss)
    truth = d / 2 * math.log(2 * math.pi * scale**2)
    assert abs(constant.item() - truth) < 0.02  # some 4 standard errors of 20 000 rows
    assert abs(precision.item() * scale**2 - 1) < 0.04


def test_gradients_of_the_objectives_reach_all_weights():
    network = wavy(2).double()
    x = torch.randn(8, 2, dtype=torch.float64)
    for losses in (score_matching(network, x), sliced(network, x), denoising(network, x, torch.ones(8, 1).double())):
        assert bool((gradients(losses.sum(), network) != 0).any())
