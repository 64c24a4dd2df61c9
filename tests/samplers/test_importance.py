"""Importance sampling: estimates within their errors, error bars that are true, k as in ArviZ, resampling."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.stats as st
import torch
from torch.distributions import Independent, Normal, StudentT

from benthic.base.errors import InvalidInput
from benthic.samplers import (
    WeightedDraws,
    effective_sample_size,
    importance_sampling,
    pareto_k,
    pareto_smooth,
    pareto_threshold,
    resample,
)
from benthic.samplers.direct.pareto import fit_pareto
from benthic.samplers.direct.resampling import METHODS

pytestmark = pytest.mark.spec("C-01")
STUDENT = StudentT(torch.tensor(5.0, dtype=torch.float64))


def shifted(x):  # 3 N(1, 0.5^2)
    return math.log(3) + Normal(1.0, 0.5).log_prob(x)


@pytest.mark.parametrize("method", ["self-normalized", "smoothed"])
def test_moments_and_normalizer(method):
    draws = importance_sampling(shifted, STUDENT, 40_000, seed=0)
    mean, square = draws.expect(lambda x: torch.stack([x, x.square()], -1), method)
    assert abs(mean.value - 1) < 4 * mean.stderr and abs(square.value - 1.25) < 4 * square.stderr
    assert abs(draws.normalizer.value - 3) < 4 * draws.normalizer.stderr
    assert abs(draws.log_normalizer.value - math.log(3)) < 4 * draws.log_normalizer.stderr
    assert draws.dependable and "ESS" in repr(draws)


@pytest.mark.filterwarnings("ignore:importance_sampling")
def test_plain_importance_needs_a_normalized_target_and_is_unbiased():
    target = Normal(1.0, 0.5)
    values = []
    for seed in range(400):
        draws = importance_sampling(target.log_prob, STUDENT, 50, seed=seed)
        values.append(draws.expect(lambda x: x, "plain").value)
    values = torch.tensor(values, dtype=torch.float64)
    assert abs(float(values.mean()) - 1) < 4 * float(values.std()) / 20


@pytest.mark.parametrize("method", ["self-normalized", "plain"])
def test_error_bars_are_the_spread_over_repetitions(method):
    found = []
    for seed in range(300):
        draws = importance_sampling(Normal(0.5, 0.8).log_prob, STUDENT, 400, seed=seed)
        found.append(draws.expect(lambda x: x, method))
    values, errors = np.array(found).T
    # the standard deviation of 300 values is known to 1 / sqrt(600) = 4 %
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.17)


def test_effective_sample_size_of_a_shifted_normal():
    # for weights p/q with p = N(m, 1), q = N(0, 1), n / ESS tends to E w^2 = exp(m^2)
    draws = importance_sampling(
        Normal(0.5, 1.0).log_prob, Normal(torch.tensor(0.0, dtype=torch.float64), 1.0), 200_000, seed=0
    )
    assert draws.ess / 200_000 == pytest.approx(math.exp(-0.25), rel=0.02)
    batch = effective_sample_size(
        torch.stack([torch.zeros(10), torch.cat([torch.zeros(1), torch.full((9,), -math.inf)])])
    )
    assert batch.tolist() == pytest.approx([10.0, 1.0])


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("n", [50, 300, 5000])
def test_pareto_smoothing_is_that_of_arviz(scale, n):
    az = pytest.importorskip("arviz")
    raw = scale * torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, k = az.psislw(raw.numpy().copy())
    ours = pareto_smooth(raw)
    assert float(ours.k) == pytest.approx(float(k), abs=1e-10)
    np.testing.assert_allclose(ours.log_weights.numpy(), np.asarray(theirs), atol=1e-10)


def test_pareto_smoothing_is_batched():
    raw = torch.randn(3, 2, 400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    many = pareto_smooth(raw)
    one = pareto_smooth(raw[2, 1])
    torch.testing.assert_close(many.log_weights[2, 1], one.log_weights)
    torch.testing.assert_close(many.k[2, 1], one.k)
    torch.testing.assert_close(many.log_weights.exp().sum(-1), torch.ones(3, 2, dtype=torch.float64))


@pytest.mark.parametrize("k", [-0.2, 0.3, 0.9])
def test_the_pareto_fit_recovers_its_parameters(k):
    x = np.sort(st.genpareto(k, scale=2.0).rvs(20_000, random_state=0))
    shape, sigma = fit_pareto(x)
    # asymptotic standard errors of the maximum likelihood are (1 + k) / sqrt(n) and sigma sqrt(2 (1 + k) / n)
    assert abs(float(shape) - k) < 4 * (1 + k) / math.sqrt(20_000) + 1e-3
    assert abs(float(sigma) - 2) < 4 * 2 * math.sqrt(2 * (1 + k) / 20_000)


def test_k_of_a_known_tail():
    # an exponential target under an exponential proposal of rate r has weights with shape k = 1 - 1/r
    x = torch.from_numpy(np.random.default_rng(0).exponential(1 / 3.0, 200_000))
    assert float(pareto_k(-x + 3.0 * x)) == pytest.approx(1 - 1 / 3, abs=0.1)
    assert pareto_threshold(10**6) == 0.7 and pareto_threshold(1000) == pytest.approx(2 / 3)


def test_k_of_flat_and_of_few_weights():
    assert float(pareto_k(torch.zeros(100))) == -math.inf
    assert float(pareto_k(torch.randn(20))) == math.inf
    torch.testing.assert_close(pareto_smooth(torch.zeros(100)).log_weights, torch.full((100,), -math.log(100)))


def test_a_proposal_that_is_too_narrow_warns():
    narrow = Independent(Normal(torch.zeros(4, dtype=torch.float64), 0.4), 1)
    with pytest.warns(UserWarning, match="Pareto k"):
        draws = importance_sampling(lambda x: -0.5 * x.square().sum(-1), narrow, 4000, seed=0)
    assert not draws.dependable


@pytest.mark.parametrize("method", METHODS)
def test_resampling_has_the_right_mean_counts(method):
    w = torch.tensor([[0.47, 0.31, 0.22, 0.0], [0.1, 0.13, 0.05, 0.72]], dtype=torch.float64)
    source, counts = torch.Generator().manual_seed(0), torch.zeros(2, 4, dtype=torch.float64)
    for _ in range(1500):
        places = resample(w.log(), 7, method, generator=source)
        assert places.shape == (2, 7)
        counts += torch.stack([torch.bincount(row, minlength=4) for row in places])
    # no method has a larger variance than the multinomial one, n w (1 - w)
    slack = 4 * (7 * w * (1 - w) / 1500).sqrt()
    assert bool(((counts / 1500 - 7 * w).abs() <= slack + 1e-12).all())


def test_low_variance_methods_stay_within_one_of_the_mean():
    w = torch.softmax(torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), -1)
    for seed in range(50):
        systematic = torch.bincount(resample(w.log(), 100, seed=seed), minlength=30)
        assert bool(((systematic - 100 * w).abs() < 1).all())
        residual = torch.bincount(resample(w.log(), 100, "residual", seed=seed), minlength=30)
        assert bool((residual >= (100 * w).floor()).all()) and int(residual.sum()) == 100
        stratified = torch.bincount(resample(w.log(), 100, "stratified", seed=seed), minlength=30)
        assert bool(((stratified - 100 * w).abs() < 2).all())


def test_resampled_draws_follow_the_target():
    draws = importance_sampling(shifted, STUDENT, 100_000, seed=0)
    x = draws.resample(2000, "multinomial", seed=1)
    assert st.kstest(x.numpy(), st.norm(1, 0.5).cdf).pvalue > 1e-5
    both = WeightedDraws({"a": torch.arange(3), "b": torch.arange(3) * 2}, torch.zeros(3)).resample(6, seed=0)
    assert torch.equal(both["b"], 2 * both["a"]) and both["a"].tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: resample(torch.zeros(3), method="sytematic"), "did you mean 'systematic'"),
        (lambda: resample(torch.zeros(3), 0), "at least one"),
        (lambda: resample(torch.full((3,), -math.inf)), "every weight is zero"),
        (lambda: resample([0.0, math.nan]), "NaN"),
        (lambda: WeightedDraws(torch.zeros(3), torch.zeros(4)), "one weight a draw"),
        (lambda: WeightedDraws(torch.zeros(3), torch.zeros(3)).expect(lambda x: x.sum()), "is needed"),
        (lambda: WeightedDraws(torch.zeros(3), torch.zeros(3)).expect(lambda x: x, "normal"), "method"),
        (lambda: importance_sampling(shifted, Normal(torch.zeros(2), 1.0)), "Independent"),
        (lambda: importance_sampling(lambda x: x.sum(), Normal(0.0, 1.0)), "one number a draw"),
        (lambda: importance_sampling(lambda x: x * math.nan, Normal(0.0, 1.0)), "log_density is nan"),
        (lambda: importance_sampling(shifted, Normal(0.0, 1.0), 1), "at least two"),
        (lambda: pareto_threshold(1), "at least two"),
        (lambda: pareto_smooth(torch.zeros(())), "is needed"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
