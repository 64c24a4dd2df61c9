"""Entropy and mutual information: identities, closed forms, SciPy, and estimators within their error bars."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from sklearn.feature_selection import _mutual_info
from torch import distributions as td

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions import estimators, quadrature
from benthic.distributions.information import (
    Samples,
    conditional_entropy,
    cross_entropy,
    entropy,
    joint_entropy,
    kl,
    mutual_information,
)
from benthic.distributions.neighbors import count_within, kth_distance

pytestmark = pytest.mark.spec("B-03")
D = torch.float64
TIGHT = {"rtol": 1e-12, "atol": 1e-13}


def tensor(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=D)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def tables(*shape, seed=0, zeros=True):
    """Random tables of probabilities over the last two dimensions, some entries exactly zero."""
    weights = torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)
    weights = torch.where(weights < 0.2, 0.0, weights) if zeros else weights + 0.01
    return weights / weights.sum((-2, -1), keepdim=True)


# ------------------------------------------------------------------------------------------------- tables


def test_tables_agree_with_scipy():
    p, q = tables(5, 1, 7)[:, 0], tables(5, 1, 7, seed=1, zeros=False)[:, 0]
    np.testing.assert_allclose(entropy(p), stats.entropy(p.numpy(), axis=-1), **TIGHT)
    np.testing.assert_allclose(entropy(p, base=2), stats.entropy(p.numpy(), axis=-1, base=2), **TIGHT)
    np.testing.assert_allclose(kl(p, q, base=10), stats.entropy(p.numpy(), q.numpy(), axis=-1, base=10), **TIGHT)


def test_entropy_lies_between_zero_and_log_k():
    for k in (2, 3, 10, 1000):
        uniform = torch.full((k,), 1 / k, dtype=D)
        torch.testing.assert_close(entropy(uniform), tensor(math.log(k)), **TIGHT)
        p = torch.rand(100, k, generator=torch.Generator().manual_seed(k), dtype=D)
        found = entropy(p / p.sum(-1, keepdim=True))
        assert (found <= math.log(k)).all() and (found >= 0).all()
    assert entropy([0.0, 1.0, 0.0]) == 0.0
    assert entropy(torch.full((3,), 1 / 3, dtype=D)) > 1  # the bound is log K, not 1


def test_the_worked_cross_entropy_is_in_decimal_logarithms():
    p, q = [0.0, 0.0, 1.0], [0.1, 0.2, 0.7]
    assert round(float(cross_entropy(p, q, base=10)), 2) == 0.15
    torch.testing.assert_close(cross_entropy(p, q), tensor(-math.log(0.7)), **TIGHT)  # 0.357 nats
    torch.testing.assert_close(kl(p, q), tensor(-math.log(0.7)), **TIGHT)
    assert kl(p, [1.0, 0.0, 0.0]) == math.inf


def test_identities_of_tables():
    table = tables(6, 4, 5)
    x, y = table.sum(-1), table.sum(-2)
    information = mutual_information(table)
    torch.testing.assert_close(joint_entropy(table), entropy(y) + conditional_entropy(table), **TIGHT)  # chain rule
    torch.testing.assert_close(joint_entropy(table), entropy(x) + conditional_entropy(table.mT), **TIGHT)
    torch.testing.assert_close(information, entropy(x) - conditional_entropy(table), **TIGHT)
    torch.testing.assert_close(information, entropy(x) + entropy(y) - joint_entropy(table), **TIGHT)
    torch.testing.assert_close(information, mutual_information(table.mT), **TIGHT)
    q = tables(6, 1, 4, seed=2, zeros=False)[:, 0]
    torch.testing.assert_close(cross_entropy(x, q), entropy(x) + kl(x, q), **TIGHT)


def test_conditional_entropy_is_the_mean_over_y():
    table = tables(4, 5)
    margin = table.sum(0)
    mean = sum(margin[j] * entropy(table[:, j] / margin[j]) for j in range(5))
    torch.testing.assert_close(conditional_entropy(table), mean, **TIGHT)


def test_processing_loses_information():
    table = tables(20, 6, 6, zeros=False)
    channel = torch.rand(6, 4, generator=torch.Generator().manual_seed(1), dtype=D)
    channel = channel / channel.sum(1, keepdim=True)  # Z depends on Y alone
    assert (mutual_information(table @ channel) <= mutual_information(table) + 1e-14).all()
    p, q = table.sum(-1), table.mT.sum(-1)
    assert (kl(p @ channel, q @ channel) <= kl(p, q) + 1e-14).all()


def test_independence_is_zero_information():
    p, q = tensor(0.2, 0.8), tensor(0.5, 0.0, 0.5)
    assert abs(float(mutual_information(torch.outer(p, q)))) < 1e-16


def test_gradients_and_zeros():
    logits = randn(3, 4).requires_grad_()
    target = tables(1, 3, 4, zeros=False)[0] * 3
    target = target / target.sum(-1, keepdim=True)
    assert torch.autograd.gradcheck(lambda z: entropy(z.softmax(-1)), logits)
    assert torch.autograd.gradcheck(lambda z: cross_entropy(target, z.softmax(-1)), logits)
    table = tensor([0.5, 0.0], [0.25, 0.25]).requires_grad_()
    for function in (joint_entropy, conditional_entropy, mutual_information):
        (gradient,) = torch.autograd.grad(function(table), table)
        assert torch.isfinite(gradient).all()


def test_types_and_lists():
    assert entropy([0.5, 0.5]).dtype == D
    assert entropy(torch.tensor([0.5, 0.5])).dtype == torch.float32
    assert entropy(np.array([[0.5, 0.5]])).shape == (1,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entropy([0.5, 0.4]), "entropy: p sums to 0.9 instead of 1"),
        (lambda: entropy([1.5, -0.5]), "negative or non-finite"),
        (lambda: entropy([math.nan, 1.0]), "negative or non-finite"),
        (lambda: entropy([]), "probabilities over 1 dimension"),
        (lambda: entropy([0.5, 0.5], base=1), "base is 1"),
        (lambda: cross_entropy([0.5, 0.5], [1.0]), "p has 2 outcomes and q has 1"),
        (lambda: cross_entropy([0.5, 0.5], td.Normal(0.0, 1.0)), "two arrays of probabilities"),
        (lambda: joint_entropy([0.5, 0.5]), "over 2 dimension"),
        (lambda: mutual_information([1.0, 2.0], [1.0]), "x has 2 draws and y has 1"),
        (lambda: mutual_information([1.0, 2.0, 3.0], [1.0, 2.0, 5.0]), "3 draws have no 3-th neighbor"),
        (lambda: mutual_information([1.0] * 9, [1.0] * 9), "repeated more than 3 times"),
        (lambda: mutual_information(randn(9), randn(9), method="hist"), "did you mean 'histogram'"),
        (lambda: mutual_information(randn(9, 2), randn(9), method="histogram"), "one column a side"),
        (lambda: mutual_information(randn(9), randn(9), method="histogram", bins=0), "bins is 0"),
        (lambda: mutual_information(randn(9), randn(9), k=0), "k is 0"),
        (lambda: mutual_information(td.Gamma(1.0, 1.0), split=1), "Gamma has no closed form"),
        (lambda: mutual_information(td.MultivariateNormal(torch.zeros(2), torch.eye(2)), split=2), "split is 2"),
        (lambda: Samples([]), "at least one draw"),
        (lambda: Samples([math.nan]), "NaN or infinite"),
        (lambda: entropy(td.Normal(0.0, 1.0), method="exact"), "method is 'exact'"),
        (lambda: entropy(td.MultivariateNormal(torch.zeros(2), torch.eye(2)), method="quadrature"), "one dimension"),
        (lambda: entropy(td.Normal(torch.zeros(3), 1.0), method="monte_carlo"), r"batch shape \(3,\)"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


# ------------------------------------------------------------------------------------------- distributions

LAWS = [
    td.Normal(tensor(1.0), tensor(2.0)),
    td.Cauchy(tensor(-1.0), tensor(3.0)),
    td.Gamma(tensor(0.3), tensor(2.0)),
    td.Beta(tensor(0.5), tensor(3.0)),
    td.StudentT(tensor(1.5)),
    td.Laplace(tensor(0.0), tensor(2.0)),
    td.Uniform(tensor(-1.0), tensor(4.0)),
    td.Exponential(tensor(3.0)),
    td.LogNormal(tensor(0.0), tensor(1.5)),
    td.Gumbel(tensor(0.0), tensor(2.0)),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_quadrature_reaches_the_closed_entropy(law):
    torch.testing.assert_close(entropy(law, method="quadrature"), entropy(law), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "law",
    [
        td.Poisson(tensor(3.5)),
        td.Geometric(tensor(0.3)),
        td.NegativeBinomial(tensor(5.0), tensor(0.4)),
        td.Binomial(10, tensor(0.3)),
        td.Bernoulli(tensor(0.2)),
        td.Categorical(tensor(0.2, 0.5, 0.3)),
    ],
    ids=lambda law: type(law).__name__,
)
def test_sums_over_whole_numbers(law):
    x = torch.arange(3 if isinstance(law, td.Categorical) else 2 if isinstance(law, td.Bernoulli) else 400, dtype=D)
    x = x[law.support.check(x)]
    direct = -(law.log_prob(x).exp() * law.log_prob(x)).sum()
    torch.testing.assert_close(entropy(law, method="quadrature"), direct, rtol=1e-11, atol=1e-12)


def test_quadrature_of_a_mixture_with_distant_narrow_parts():
    law = td.MixtureSameFamily(td.Categorical(tensor(0.3, 0.7)), td.Normal(tensor(-1e3, 1e3), tensor(1e-3, 1.0)))
    parts = 0.3 * math.log(1e-3) - 0.3 * math.log(0.3) - 0.7 * math.log(0.7) + 0.5 * math.log(2 * math.pi * math.e)
    torch.testing.assert_close(entropy(law), tensor(parts), rtol=1e-11, atol=1e-11)


def test_quadrature_of_a_mixture_against_scipy():
    law = td.MixtureSameFamily(td.Categorical(tensor(0.3, 0.7)), td.Normal(tensor(-3.0, 4.0), tensor(0.5, 1.0)))

    def integrand(x):
        log = float(law.log_prob(tensor(x)))
        return -math.exp(log) * log

    expected = integrate.quad(integrand, -15, 15, points=[-3, 0, 4], epsabs=1e-11, limit=200)[0]
    assert abs(float(entropy(law)) - expected) < 1e-10


def test_quadrature_is_batched_and_differentiable():
    scale = tensor(0.5, 1.0, 4.0).requires_grad_()
    law = td.Normal(tensor(0.0, 3.0, -2.0), scale)
    found = entropy(law, method="quadrature")
    torch.testing.assert_close(found, law.entropy(), rtol=1e-11, atol=1e-11)
    (gradient,) = torch.autograd.grad(found.sum(), scale)
    torch.testing.assert_close(gradient, 1 / scale.detach(), rtol=1e-9, atol=1e-9)


def test_quadrature_around_the_circle():
    law = td.VonMises(tensor(1.0), tensor(2.0))
    # H = log 2πI₀(κ) − κ I₁(κ)/I₀(κ)
    bessel = special.i0(2.0), special.i1(2.0)
    expected = math.log(2 * math.pi * bessel[0]) - 2 * bessel[1] / bessel[0]
    assert float(entropy(law)) == pytest.approx(expected, abs=1e-6)  # torch's own I₀ is good to 1e-7


def test_quadrature_gives_up_where_mass_is_out_of_reach():
    law = td.Beta(tensor(0.01), tensor(0.01))  # most of its mass is nearer to 1 than a float64 can be
    assert quadrature.total(lambda x, logs: logs[0].exp(), [law]) is None


def test_cross_entropy_of_laws():
    p, q = td.Gamma(tensor(2.0), tensor(1.0)), td.Gamma(tensor(3.0), tensor(0.5))
    torch.testing.assert_close(cross_entropy(p, q), p.entropy() + td.kl_divergence(p, q), **TIGHT)
    torch.testing.assert_close(cross_entropy(p, q, method="quadrature"), cross_entropy(p, q), rtol=1e-10, atol=1e-10)
    drawn = cross_entropy(p, q, method="monte_carlo", n=20_000, seed=0)
    assert abs(drawn.value - float(cross_entropy(p, q))) < 4 * drawn.stderr


def test_monte_carlo_leaves_the_global_state_alone_and_repeats():
    law = td.MultivariateNormal(torch.zeros(2, dtype=D), torch.eye(2, dtype=D))
    before = torch.random.get_rng_state()
    first, second = (entropy(law, method="monte_carlo", n=1000, seed=7) for _ in range(2))
    assert first == second and torch.equal(before, torch.random.get_rng_state())
    assert abs(first.value - float(law.entropy())) < 4 * first.stderr


def test_normal_laws_in_closed_form():
    root = randn(4, 4)
    law = td.MultivariateNormal(torch.zeros(4, dtype=D), root @ root.T + torch.eye(4, dtype=D))
    S = law.covariance_matrix
    x, y = (td.MultivariateNormal(torch.zeros(2, dtype=D), S[i : i + 2, i : i + 2]) for i in (0, 2))
    expected = x.entropy() + y.entropy() - law.entropy()
    torch.testing.assert_close(mutual_information(law, split=2), expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(conditional_entropy(law, split=2), law.entropy() - y.entropy(), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(joint_entropy(law), law.entropy(), **TIGHT)
    rho = 0.6
    pair = td.MultivariateNormal(torch.zeros(2, dtype=D), tensor([1.0, rho], [rho, 1.0]))
    torch.testing.assert_close(mutual_information(pair, split=1), tensor(-0.5 * math.log(1 - rho**2)), **TIGHT)


# ------------------------------------------------------------------------------------------------- samples


def repeated(estimate, truth, times=40):
    """Mean error in units of its own standard error, and spread relative to the reported error bars."""
    found = [estimate(seed) for seed in range(times)]
    values, errors = (np.array([getattr(one, name) for one in found]) for name in ("value", "stderr"))
    spread = values.std(ddof=1)
    return (values.mean() - truth) / (spread / math.sqrt(times)), spread / math.sqrt((errors**2).mean())


def correlated(n, seed, rho=0.8):
    z = randn(n, 2, seed=seed)
    return z[:, 0], rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]


GAUSSIAN_INFORMATION = -0.5 * math.log(1 - 0.8**2)


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [
        (lambda seed: entropy(Samples(randn(300, seed=seed)), seed=0), 0.5 * math.log(2 * math.pi * math.e)),
        (lambda seed: mutual_information(*correlated(300, seed), seed=0), GAUSSIAN_INFORMATION),
        (lambda seed: conditional_entropy(*correlated(300, seed), seed=0), 0.5 * math.log(2 * math.pi * math.e * 0.36)),
        (
            lambda seed: entropy(
                Samples(
                    torch.multinomial(tensor(0.1, 0.2, 0.7), 200, True, generator=torch.Generator().manual_seed(seed))
                )
            ),
            float(entropy([0.1, 0.2, 0.7])),
        ),
    ],
    ids=["entropy", "mutual information", "conditional entropy", "entropy of labels"],
)
def test_estimates_center_on_the_truth_with_honest_error_bars(estimate, truth):
    # the error of a standard deviation from 40 runs is about 11 %; the estimated bars have their own
    off, calibration = repeated(estimate, truth)
    assert abs(off) < 4
    assert 0.65 < calibration < 1.5


def test_histogram_information_approaches_the_truth_from_below():
    # equal cells lose what varies within them; the loss shrinks with n
    errors = []
    for n in (500, 50_000):
        found = mutual_information(*correlated(n, 1), method="histogram")
        errors.append(abs(found.value - GAUSSIAN_INFORMATION))
        assert found.value < GAUSSIAN_INFORMATION + 3 * found.stderr
    assert errors[1] < 0.02 < 0.2


def test_miller_correction_removes_the_bias_of_independent_labels():
    rng = np.random.default_rng(0)
    found = [mutual_information(rng.integers(0, 5, 200), rng.integers(0, 4, 200)) for _ in range(300)]
    values = np.array([one.value for one in found])
    plain_bias = (5 - 1) * (4 - 1) / (2 * 200)
    assert abs(values.mean()) < 0.1 * plain_bias + 4 * values.std() / math.sqrt(300)


def test_the_jackknife_is_the_jackknife():
    x = torch.tensor([0, 0, 1, 2, 2, 2, 1, 0])
    y = torch.tensor([1, 1, 0, 1, 0, 0, 0, 1])
    found = estimators.mutual_information_counts(x, y)
    keep = [torch.arange(8) != i for i in range(8)]
    left = np.array([estimators.mutual_information_counts(x[k], y[k]).value for k in keep])
    assert found.stderr == pytest.approx(math.sqrt(7 / 8 * ((left - left.mean()) ** 2).sum()), rel=1e-12)
    left = np.array([estimators.entropy_counts(x[k]).value for k in keep])
    expected = math.sqrt(7 / 8 * ((left - left.mean()) ** 2).sum())
    assert estimators.entropy_counts(x).stderr == pytest.approx(expected, rel=1e-12)


def test_neighbor_estimators_are_those_of_scikit_learn():
    x, y = correlated(400, 3)
    ours = estimators.mutual_information_knn(x[:, None], y[:, None], 3)
    theirs = _mutual_info._compute_mi_cc(x.numpy(), y.numpy(), 3)
    assert ours == pytest.approx(theirs, abs=1e-12)
    labels = (y > 0).long() + (y > 1).long()
    ours = estimators.mutual_information_mixed(x[:, None], labels, 3)
    theirs = _mutual_info._compute_mi_cd(x.numpy(), labels.numpy(), 3)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_mixed_information_against_a_sum_over_the_label():
    # X given Z = z is normal with mean 2z: I = H(X) − H(X|Z), the first by quadrature
    law = td.MixtureSameFamily(td.Categorical(tensor(0.5, 0.5)), td.Normal(tensor(0.0, 2.0), 1.0))
    truth = float(entropy(law)) - 0.5 * math.log(2 * math.pi * math.e)
    labels = torch.arange(4000) % 2
    found = mutual_information(randn(4000) + 2 * labels, labels, seed=0)
    assert abs(found.value - truth) < 4 * found.stderr
    assert joint_entropy(randn(4000) + 2 * labels, labels, seed=0).value == pytest.approx(
        math.log(2) + 0.5 * math.log(2 * math.pi * math.e), abs=0.1
    )


def test_entropy_in_several_dimensions_and_scales():
    X = randn(4000, 3, seed=5)
    found = entropy(Samples(X), seed=0)
    assert abs(found.value - 1.5 * math.log(2 * math.pi * math.e)) < 4 * found.stderr + 0.02
    scaled = entropy(Samples(X * 1e3), seed=0)
    assert scaled.value - found.value == pytest.approx(3 * math.log(1e3), abs=1e-9)
    assert entropy(Samples(X), base=2, seed=0).value == pytest.approx(found.value / math.log(2), rel=1e-12)


def test_joint_entropy_of_samples_is_that_of_the_rows():
    x, y = correlated(2000, 2)
    found = joint_entropy(x, y, seed=0)
    assert found == entropy(Samples(torch.stack((x, y), 1)), seed=0)
    truth = math.log(2 * math.pi * math.e) + 0.5 * math.log(1 - 0.64)
    assert abs(found.value - truth) < 4 * found.stderr


def test_cross_entropy_of_samples():
    X, Y, law = (
        randn(2000, 2, seed=1),
        1 + randn(3000, 2, seed=2),
        td.Independent(td.Normal(torch.ones(2, dtype=D), 1), 1),
    )
    truth = math.log(2 * math.pi * math.e) + 1
    for found in (
        cross_entropy(Samples(X), law),
        cross_entropy(Samples(X), Samples(Y), seed=0),
        cross_entropy(td.Independent(td.Normal(torch.zeros(2, dtype=D), 1), 1), Samples(Y), n=2000, seed=0),
    ):
        assert isinstance(found, Estimate) and abs(found.value - truth) < 4 * found.stderr
    labels = cross_entropy(Samples([0, 1, 1, 1]), Samples([0, 1, 0, 1]), seed=0)
    assert labels.value == pytest.approx(math.log(2), abs=1e-12)


def test_few_draws_have_a_value_and_no_error_bar():
    found = entropy(Samples(randn(6)))
    assert math.isfinite(found.value) and math.isnan(found.stderr)


@pytest.mark.parametrize("d", [1, 2, 20])
def test_neighbors_in_a_tree_and_in_blocks(d):
    X, Y = randn(60, d), randn(50, d, seed=1)
    for norm in (2.0, math.inf):
        across = torch.cdist(X, Y, p=norm).sort(1).values[:, 2]
        torch.testing.assert_close(kth_distance(X, Y, 3, norm), across, rtol=1e-10, atol=1e-10)
        gaps = torch.linalg.vector_norm(X[:, None] - X[None], ord=norm, dim=-1)
        within = gaps.fill_diagonal_(math.inf).sort(1).values[:, 2]
        torch.testing.assert_close(kth_distance(X, None, 3, norm), within, rtol=1e-12, atol=1e-12)
    radius = kth_distance(X, None, 3, math.inf)
    gaps = (X[:, None] - X[None]).abs().amax(-1)
    expected = ((gaps < radius[:, None]) & ~torch.eye(60, dtype=torch.bool)).sum(1)
    assert torch.equal(count_within(X, radius), expected) and (expected == 2).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device():
    x, y = correlated(500, 1)
    here, there = mutual_information(x, y, seed=0), mutual_information(x.cuda(), y.cuda(), seed=0)
    assert there.value == pytest.approx(here.value, abs=1e-9)
    assert entropy(Samples(x.cuda()), seed=0).value == pytest.approx(entropy(Samples(x), seed=0).value, abs=1e-9)
    law = td.StudentT(tensor(3.0).cuda())
    assert entropy(law, method="quadrature").device.type == "cuda"
    assert entropy(torch.tensor([0.5, 0.5]).cuda()).device.type == "cuda"
