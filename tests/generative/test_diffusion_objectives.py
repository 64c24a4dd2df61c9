"""Objectives of diffusion: weights, times and score matching against closed forms and independent formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Normal, kl_divergence

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import convert, network_target, process_of
from benthic.generative.diffusion.chain import DiscreteChain
from benthic.generative.diffusion.exact import exact_denoiser
from benthic.generative.diffusion.objectives import (
    DenoisingObjective,
    StartedDenoiser,
    chain_bound,
    weight_of,
)
from benthic.generative.diffusion.score_matching import exact_score_matching, sliced_score_matching
from benthic.generative.diffusion.times import TimeLaw, even_uniforms
from benthic.generative.diffusion.variational import LearnedSchedule, ScheduledVP

TARGETS = ("noise", "data", "velocity", "score", "flow", "edm")
PROCESSES = ("vp", "cosine", "subvp", "ve", "edm", "straight", "ddpm")


def middle_times(process, n):
    shares = torch.linspace(0.1, 0.8, n, dtype=torch.float64)
    return process.snap(process.t_min + (process.t_max - process.t_min) * shares)


@pytest.mark.spec("N-05")
@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("weighting", ["noise", "variational", "min_snr", "edm"])
def test_a_weighting_is_the_same_loss_for_every_target(name, weighting):
    torch.manual_seed(0)
    process = process_of(name)
    t = middle_times(process, 5)
    x0, noise, guess = (torch.randn(5, 3, dtype=torch.float64) for _ in range(3))
    x = process.mix(x0, noise, t)
    losses = {}
    for target in TARGETS:
        # the answer of a network that expects ``guess`` as the data
        wrong = (x - process.alpha(t)[:, None] * guess) / process.sigma(t)[:, None]
        answer = network_target(process, guess, wrong, t, target, 0.7)
        wanted = network_target(process, x0, noise, t, target, 0.7)
        weight = weight_of(process, t, target, weighting, 0.7)
        losses[target] = weight * (answer - wanted).square().sum(1)
    for target in TARGETS[1:]:
        torch.testing.assert_close(losses[target], losses["noise"], rtol=1e-7, atol=1e-9)


def test_weights_are_those_of_the_papers():
    process = process_of("vp")
    t = torch.linspace(0.1, 0.9, 7, dtype=torch.float64)
    h = 1e-6
    slope = (process.log_snr(t + h) - process.log_snr(t - h)) / (2 * h)
    torch.testing.assert_close(weight_of(process, t, "noise", "variational", 1.0), -0.5 * slope, rtol=1e-6, atol=1e-8)
    snr = process.log_snr(t).exp()
    # Hang et al., 2023: min(SNR, 5) on the error of the data
    torch.testing.assert_close(weight_of(process, t, "data", "min_snr", 1.0), snr.clamp(max=5.0))
    sigma = torch.tensor([0.1, 1.0, 20.0], dtype=torch.float64)
    edm = weight_of(process_of("edm"), sigma, "data", "edm", 0.5)
    torch.testing.assert_close(edm, (sigma**2 + 0.25) / (sigma * 0.5) ** 2)  # Karras et al., 2022, table 1
    assert torch.equal(weight_of(process, t, "velocity", "simple", 1.0), torch.ones_like(t))
    with pytest.raises(InvalidInput, match="weighting 'simpel' is unknown.*simple"):
        weight_of(process, t, "noise", "simpel", 1.0)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_silent_network_is_the_denoiser_of_normal_data(name, target):
    process = process_of(name)
    started = StartedDenoiser(process, lambda x, level: torch.zeros_like(x), target, sigma_data=0.6)
    truth = exact_denoiser(([1.0], [[0.0, 0.0]], [(0.36 * torch.eye(2)).tolist()]), process)
    x = torch.randn(5, 2, dtype=torch.float64)
    for t in middle_times(process, 4).tolist():
        torch.testing.assert_close(started.data(x, t), truth.data(x, t), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("N-04")
def test_score_matching_of_a_linear_score():
    torch.manual_seed(0)
    A = torch.randn(4, 4, dtype=torch.float64)
    x = torch.randn(50, 4, dtype=torch.float64)
    expected = 0.5 * (x @ A.T).square().sum(1) + A.trace()
    torch.testing.assert_close(exact_score_matching(lambda p: p @ A.T, x), expected)
    probes = 4000
    sliced = sliced_score_matching(lambda p: p @ A.T, x[:2], probes)
    # the variance of v' A v for signs is twice the sum of squares of the symmetric part off the diagonal
    S = 0.5 * (A + A.T)
    error = (2 * (S.square().sum() - S.diagonal().square().sum()) / probes).sqrt()
    assert (sliced - expected[:2]).abs().max() < 4 * error
    diagonal = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    torch.testing.assert_close(
        sliced_score_matching(lambda p: p @ diagonal, x), exact_score_matching(lambda p: p @ diagonal, x)
    )


@pytest.mark.spec("N-04")
def test_score_matching_finds_the_score_of_normal_data():
    torch.manual_seed(0)
    L = torch.tensor([[1.0, 0.0], [0.8, 0.5]], dtype=torch.float64)
    x = torch.randn(4000, 2, dtype=torch.float64) @ L.T
    A = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([A], max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = exact_score_matching(lambda p: p @ A.T, x).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    # of all linear scores the minimum is exactly minus the inverse of the second moments
    torch.testing.assert_close(A.detach(), -torch.linalg.inv(x.T @ x / len(x)), rtol=1e-5, atol=1e-5)


def test_gradients_reach_the_network_through_matching():
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    for matching in ("sliced", "exact"):
        objective = DenoisingObjective(process_of("ve"), matching=matching)
        objective(lambda x, level: net(x), torch.randn(6, 2)).sum().backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())


@pytest.mark.spec("N-05")
def test_the_term_of_the_bound_is_a_divergence_of_normals():
    torch.manual_seed(0)
    chain = DiscreteChain(100)
    betas, kept = chain.betas(), chain.alpha_bars()
    x0, noise, data = (torch.randn(3, 2, dtype=torch.float64) for _ in range(3))
    fraction = torch.rand(3, 2, dtype=torch.float64)
    for step in (2, 37, 100):
        t = torch.full((3,), float(step), dtype=torch.float64)
        x = chain.mix(x0, noise, t)
        beta, now, before = betas[step - 1], kept[step], kept[step - 1]
        tilde = beta * (1 - before) / (1 - now)

        def mean(clean, x=x, beta=beta, now=now, before=before):
            return (before.sqrt() * beta * clean + (1 - beta).sqrt() * (1 - before) * x) / (1 - now)

        ours = Normal(mean(data), (fraction * beta.log() + (1 - fraction) * tilde.log()).exp().sqrt())
        expected = kl_divergence(Normal(mean(x0), tilde.sqrt()), ours).mean(1) * 100
        torch.testing.assert_close(chain_bound(chain, x0, x, data, fraction, t), expected, rtol=1e-6, atol=1e-8)


def test_only_the_variance_learns_from_the_bound():
    chain = DiscreteChain(50)
    answer, spread = torch.nn.Parameter(torch.zeros(1, 2)), torch.nn.Parameter(torch.zeros(1, 2))
    objective = DenoisingObjective(chain, learned_variance=True)
    torch.manual_seed(0)
    x0 = torch.randn(64, 2)
    losses = objective(lambda x, t: (answer.expand(len(x), 2), torch.sigmoid(spread).expand(len(x), 2)), x0)
    losses.sum().backward()
    assert spread.grad is not None and spread.grad.abs().sum() > 0
    with_bound = answer.grad.clone()
    answer.grad = None
    torch.manual_seed(0)
    plain = DenoisingObjective(chain)
    torch.randn(64, 2)
    plain(lambda x, t: answer.expand(len(x), 2), x0).sum().backward()
    torch.testing.assert_close(answer.grad, with_bound)
    with pytest.raises(InvalidInput, match="steps of a chain"):
        DenoisingObjective(process_of("vp"), learned_variance=True)


@pytest.mark.parametrize("cover", ["independent", "antithetic", "even"])
def test_times_have_their_law(cover):
    torch.manual_seed(0)
    like = torch.zeros(1, dtype=torch.float64)
    u = torch.cat([even_uniforms(7, like, cover) for _ in range(600)]).numpy()
    # draws of a batch depend on each other, which only makes the whole more even: the usual bound holds
    assert stats.kstest(u, "uniform").statistic < 1.95 / math.sqrt(len(u)) * (1 if cover == "independent" else 1.5)
    process = process_of("edm")
    sigma = TimeLaw("log_normal", cover, mean=-1.2, spread=1.2).place(process, torch.as_tensor(u)).numpy()
    inside = (sigma > process.t_min) & (sigma < process.t_max)
    z = (np.log(sigma[inside]) + 1.2) / 1.2
    assert abs(z.mean()) < 0.1 and abs(z.std() - 1) < 0.1


def test_even_times_make_the_loss_steadier():
    torch.manual_seed(0)
    like = torch.zeros(1, dtype=torch.float64)
    spread = {
        cover: torch.stack([even_uniforms(16, like, cover).square().mean() for _ in range(300)]).std()
        for cover in ("independent", "antithetic", "even")
    }
    assert spread["even"] < 0.8 * spread["antithetic"] < 0.4 * spread["independent"]


def test_times_of_a_chain_are_its_whole_times():
    chain = DiscreteChain(10)
    u = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    times = TimeLaw().place(chain, u)
    assert torch.equal(torch.bincount(times.long(), minlength=11)[1:], torch.full((10,), 100))
    for law in ("log_snr", "logit_normal"):
        found = TimeLaw(law).place(process_of("vp"), u)
        assert (found >= 1e-4).all() and (found <= 1).all() and (found.diff().abs() > 0).all()
    levels = process_of("vp").log_snr(TimeLaw("log_snr").place(process_of("vp"), u))
    torch.testing.assert_close(levels.diff(), levels.diff().mean().expand(999), rtol=1e-5, atol=1e-7)
    with pytest.raises(InvalidInput, match="law='unifrom'"):
        TimeLaw("unifrom")


def test_a_schedule_of_lines_is_a_process():
    process = ScheduledVP(log_snrs=(9.0, 3.0, 1.0, -6.0))
    t = torch.tensor([0.05, 0.3, 0.5, 0.9], dtype=torch.float64)
    h = 1e-6
    for value, rate in (
        (process.alpha, process.alpha_rate),
        (process.sigma, process.sigma_rate),
        (process.log_snr, process.log_snr_rate),
    ):
        torch.testing.assert_close(rate(t), (value(t + h) - value(t - h)) / (2 * h), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(process.time_of_log_snr(process.log_snr(t)), t)
    torch.testing.assert_close(process.alpha(t).square() + process.sigma(t).square(), torch.ones_like(t))
    assert float(process.log_snr(0.0)) == 9.0 and float(process.log_snr(1.0)) == pytest.approx(-6.0)
    with pytest.raises(InvalidInput, match="falling"):
        ScheduledVP(log_snrs=(1.0, 2.0))


@pytest.mark.spec("N-05")
def test_the_schedule_learns_the_shares_of_least_variance():
    torch.manual_seed(0)
    schedule = LearnedSchedule(8).double()
    heights = torch.tensor([1.0, 1.0, 4.0, 8.0, 2.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    optimizer = torch.optim.Adam(schedule.parameters(), lr=0.05)
    like = torch.zeros(1, dtype=torch.float64)
    for _ in range(400):
        optimizer.zero_grad()
        places, density = schedule.draw(even_uniforms(256, like))
        terms = heights[(places * 8).long().clamp(max=7)]
        schedule.regret(terms, density).mean().backward()
        optimizer.step()
    torch.testing.assert_close(schedule.shares().detach(), heights / heights.sum(), rtol=0.1, atol=0.01)
    levels = schedule.log_snrs()
    assert levels[0] == 10.0 and levels[-1] == pytest.approx(-8.0) and all(np.diff(levels) < 0)


def test_shares_of_times_do_not_bias_the_bound():
    torch.manual_seed(0)
    schedule = LearnedSchedule(8).double()
    torch.nn.init.normal_(schedule.logits)
    u = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000
    places, density = schedule.draw(u)
    # the integral of a function over the levels, whatever the shares
    assert float((places.exp() / density.detach()).mean()) == pytest.approx(math.e - 1, rel=1e-4)


def test_converted_losses_agree_with_the_objective():
    """The loss at given times is what the formula says, for a network that sees what the sampler shows it."""
    torch.manual_seed(0)
    process = process_of("vp")
    x0, noise = torch.randn(6, 2, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    t = torch.linspace(0.2, 0.7, 6, dtype=torch.float64)
    objective = DenoisingObjective(process, "noise", "simple", sigma_data=1.0)
    x = process.mix(x0, noise, t)
    losses = objective.at(lambda points, level: torch.sin(points) * level[:, None], x0, t, noise)
    total = (process.alpha(t).square() + process.sigma(t).square())[:, None]
    skip = convert(process, process.alpha(t)[:, None] / total * x, x, t, "data", "noise")
    answer = torch.sin(x / total.sqrt()) * t[:, None] + skip
    torch.testing.assert_close(losses, (answer - noise).square().mean(1))
