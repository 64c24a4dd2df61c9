"""Divergences against closed forms, SciPy, each other, and estimates within their error bars."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from scipy.spatial.distance import jensenshannon
from torch import distributions as td

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.distributions.information import Samples, fisher_divergence, hellinger, js, kl, total_variation

pytestmark = pytest.mark.spec("B-03")
D = torch.float64
TIGHT = {"rtol": 1e-12, "atol": 1e-13}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def tensor(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=D)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def normal(mean, deviation):
    return td.Normal(tensor(mean), tensor(deviation))


def gaussian(d, seed):
    root = randn(d, d, seed=seed)
    return td.MultivariateNormal(randn(d, seed=seed + 50), root @ root.T + torch.eye(d, dtype=D))


def probabilities(*shape, seed=0, zeros=True):
    weights = torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)
    weights = torch.where(weights < 0.25, 0.0, weights) if zeros else weights
    return weights / weights.sum(-1, keepdim=True)


# ------------------------------------------------------------------------------------------------- arrays


def test_arrays_against_scipy():
    p, q = probabilities(20, 8), probabilities(20, 8, seed=1)
    np.testing.assert_allclose(kl(p, q), stats.entropy(p.numpy(), q.numpy(), axis=-1), **TIGHT)
    np.testing.assert_allclose(js(p, q), jensenshannon(p.numpy(), q.numpy(), axis=-1) ** 2, **TIGHT)
    assert torch.isinf(kl(p, q)).any() and torch.isfinite(js(p, q)).all()
    np.testing.assert_allclose(total_variation(p, q), 0.5 * np.abs(p.numpy() - q.numpy()).sum(-1), **TIGHT)
    expected = np.sqrt(0.5 * ((np.sqrt(p.numpy()) - np.sqrt(q.numpy())) ** 2).sum(-1))
    np.testing.assert_allclose(hellinger(p, q), expected, **TIGHT)


def test_inequalities_and_symmetry():
    p, q = probabilities(200, 5, zeros=False), probabilities(200, 5, seed=1, zeros=False)
    tv, h = total_variation(p, q), hellinger(p, q)
    assert (h.square() <= tv + 1e-15).all() and (tv <= h * math.sqrt(2) + 1e-15).all()  # Le Cam
    assert (tv <= (kl(p, q) / 2).sqrt() + 1e-15).all()  # Pinsker
    assert (kl(p, q) >= 0).all() and (js(p, q) <= math.log(2)).all()
    for distance in (js, total_variation, hellinger):
        torch.testing.assert_close(distance(p, q), distance(q, p), **TIGHT)
        assert (distance(p, p) == 0).all()


def test_kl_keeps_the_digits_of_nearly_equal_laws():
    p = tensor(0.5, 0.5)
    gap = 1e-6
    q = tensor(0.5 - gap, 0.5 + gap)
    # −½ log(1 − 4 gap²) = 2 gap² + ...
    assert float(kl(p, q)) == pytest.approx(2 * gap**2, rel=1e-4)


def test_disjoint_supports():
    p, q = [1.0, 0.0], [0.0, 1.0]
    assert kl(p, q) == math.inf
    assert float(js(p, q)) == pytest.approx(math.log(2), abs=1e-15)
    assert total_variation(p, q) == 1 and hellinger(p, q) == 1


def test_small_probabilities_in_float32():
    p, q = torch.tensor([1e-25, 1.0]), torch.tensor([1e-20, 1.0])
    for found in (kl(p, q), js(p, q), hellinger(p, q), total_variation(p, q)):
        assert found.dtype == torch.float32 and torch.isfinite(found)


def test_gradients_of_arrays():
    a, b = randn(3, 4).requires_grad_(), randn(3, 4, seed=1).requires_grad_()
    for function in (kl, js, hellinger, total_variation):
        assert torch.autograd.gradcheck(lambda x, y, f=function: f(x.softmax(-1), y.softmax(-1)), (a, b))
    p = tensor(0.0, 0.4, 0.6).requires_grad_()
    for function in (kl, js, hellinger):
        (gradient,) = torch.autograd.grad(function(p, tensor(0.0, 0.5, 0.5)), p)
        assert torch.isfinite(gradient).all()
    assert torch.isfinite(torch.autograd.grad(hellinger(p, p.detach()), p)[0]).all()


# ------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (normal(0.0, 1.0), normal(3.0, 0.5)),
        (td.Gamma(tensor(0.5), tensor(2.0)), td.Gamma(tensor(2.0), tensor(1.0))),
        (td.Beta(tensor(2.0), tensor(3.0)), td.Beta(tensor(0.8), tensor(1.5))),
        (td.Laplace(tensor(0.0), tensor(1.0)), td.Laplace(tensor(1.0), tensor(2.0))),
        (td.Exponential(tensor(2.0)), td.Gamma(tensor(2.0), tensor(1.0))),
        (td.Uniform(tensor(0.0), tensor(1.0)), td.Normal(tensor(0.0), tensor(1.0))),
        (td.Uniform(tensor(0.0), tensor(1.0)), td.Uniform(tensor(-1.0), tensor(4.0))),
        (td.Poisson(tensor(3.0)), td.Poisson(tensor(5.0))),
        (td.Geometric(tensor(0.2)), td.Geometric(tensor(0.5))),
        (td.Categorical(tensor(0.2, 0.8)), td.Categorical(tensor(0.6, 0.4))),
        (td.Gumbel(tensor(0.0), tensor(1.0)), td.Gumbel(tensor(1.0), tensor(2.0))),
    ],
    ids=lambda law: type(law).__name__,
)
def test_quadrature_reaches_the_closed_kl(p, q):
    torch.testing.assert_close(kl(p, q, method="quadrature"), kl(p, q, method="closed"), **CLOSE)


def test_kl_of_normals_is_the_formula():
    p, q = gaussian(3, 1), gaussian(3, 2)
    A, B, gap = p.covariance_matrix, q.covariance_matrix, q.loc - p.loc
    inverse = torch.linalg.inv(B)
    expected = 0.5 * (torch.logdet(B) - torch.logdet(A) - 3 + torch.trace(inverse @ A) + gap @ inverse @ gap)
    torch.testing.assert_close(kl(p, q), expected, **CLOSE)
    drawn = kl(p, q, method="monte_carlo", n=20_000, seed=0)
    assert abs(drawn.value - float(expected)) < 4 * drawn.stderr


def test_kl_without_a_closed_form_against_scipy():
    p = td.MixtureSameFamily(td.Categorical(tensor(0.3, 0.7)), td.Normal(tensor(-3.0, 4.0), tensor(0.5, 1.0)))
    q = td.StudentT(tensor(3.0), tensor(0.0), tensor(2.0))

    def integrand(x):
        log = float(p.log_prob(tensor(x)))
        return math.exp(log) * (log - float(q.log_prob(tensor(x))))

    expected = integrate.quad(integrand, -20, 20, points=[-3, 0, 4], epsabs=1e-11, limit=300)[0]
    assert abs(float(kl(p, q)) - expected) < 1e-9


def test_infinite_divergences_of_laws():
    assert kl(td.Cauchy(tensor(0.0), tensor(1.0)), normal(0.0, 1.0)) == math.inf  # a tail too heavy
    p, q = td.Uniform(tensor(0.0), tensor(2.0)), td.Uniform(tensor(0.0), tensor(1.0))
    assert kl(p, q, method="quadrature") == math.inf and kl(p, q) == math.inf
    assert kl(td.Poisson(tensor(3.0)), td.Binomial(5, tensor(0.5))) == math.inf
    assert math.isinf(kl(normal(0.0, 1.0), td.Exponential(tensor(1.0)), method="monte_carlo", seed=0).value)


def test_parallel_lines():
    # laws on the lines x = 0 and x = θ share no point: KL = ∞ and JS = log 2 however small θ is
    p, q = td.Categorical(tensor(1.0, 0.0)), td.Categorical(tensor(0.0, 1.0))
    assert kl(p, q) == math.inf
    torch.testing.assert_close(js(p, q), tensor(math.log(2)), **TIGHT)
    narrow = js(normal(0.0, 1e-4), normal(1.0, 1e-4))
    torch.testing.assert_close(narrow, tensor(math.log(2)), **CLOSE)


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 1.0), (0.3, 1.5), (-5.0, 0.2)])
def test_symmetric_divergences_of_normals_against_scipy(mean, deviation):
    p, q = normal(0.0, 1.0), normal(mean, deviation)
    a, b = stats.norm(0, 1), stats.norm(mean, deviation)

    def integral(f):
        edges = sorted({-12.0, -2.0, 0.0, 2.0, mean - 3 * deviation, mean, mean + 3 * deviation, 12.0})
        return sum(integrate.quad(f, *ends, epsabs=1e-12, limit=200)[0] for ends in itertools.pairwise(edges))

    def middle(x):
        u, v = a.pdf(x), b.pdf(x)
        m = 0.5 * (u + v)
        return 0.5 * sum(w * math.log(w / m) for w in (u, v) if w > 0)

    assert float(js(p, q)) == pytest.approx(integral(middle), abs=1e-9)
    # TV is a difference of probabilities of the region between the points where the densities cross
    grid = np.linspace(-12, 12, 4001)
    height = a.logpdf(grid) - b.logpdf(grid)
    turns = [i for i in range(4000) if height[i] * height[i + 1] < 0]
    cross = [optimize.brentq(lambda x: a.logpdf(x) - b.logpdf(x), grid[i], grid[i + 1], xtol=1e-15) for i in turns]
    masses = [np.diff([0, *law.cdf(cross), 1]) for law in (a, b)]
    expected = 0.5 * np.abs(masses[0] - masses[1]).sum()
    assert float(total_variation(p, q)) == pytest.approx(expected, abs=1e-11)
    square = integral(lambda x: 0.5 * (math.sqrt(a.pdf(x)) - math.sqrt(b.pdf(x))) ** 2)
    assert float(hellinger(p, q)) == pytest.approx(math.sqrt(square), abs=1e-9)
    assert float(hellinger(p, q, method="quadrature")) == pytest.approx(float(hellinger(p, q)), abs=1e-10)


@pytest.mark.parametrize("distance", [js, total_variation, hellinger])
def test_monte_carlo_of_symmetric_divergences(distance):
    p, q = normal(0.0, 1.0), normal(1.0, 2.0)
    exact, drawn = distance(p, q, method="quadrature"), distance(p, q, method="monte_carlo", n=20_000, seed=1)
    assert isinstance(drawn, Estimate) and abs(drawn.value - float(exact)) < 4 * drawn.stderr
    vectors = [td.Independent(td.Normal(torch.full((3,), m, dtype=D), 1.0), 1) for m in (0.0, 0.5)]
    drawn = distance(*vectors, n=20_000, seed=1, method="monte_carlo")
    if distance is hellinger:  # the coefficients of independent coordinates multiply
        assert abs(drawn.value - math.sqrt(1 - math.exp(-3 * 0.25 / 8))) < 4 * drawn.stderr
        torch.testing.assert_close(hellinger(*vectors), tensor(math.sqrt(1 - math.exp(-3 * 0.25 / 8))), **CLOSE)
    if distance is total_variation:  # along the line of means the laws are normal, √0.75 apart
        expected = math.erf(math.sqrt(0.75) / 2 / math.sqrt(2))
        assert abs(drawn.value - expected) < 4 * drawn.stderr


def test_laws_on_different_supports():
    found = js(td.Uniform(tensor(0.0), tensor(1.0)), td.Uniform(tensor(0.5), tensor(1.5)))
    torch.testing.assert_close(found, tensor(0.5 * math.log(2)), **CLOSE)
    found = total_variation(td.Exponential(tensor(1.0)), normal(0.0, 1.0))
    a, b = stats.expon(), stats.norm()
    pieces = [(-12, 0), (0, 0.3), (0.3, 3), (3, 40)]
    expected = sum(integrate.quad(lambda x: 0.5 * abs(a.pdf(x) - b.pdf(x)), *ends, limit=200)[0] for ends in pieces)
    assert float(found) == pytest.approx(expected, abs=1e-7)
    three = td.Categorical(tensor(0.7, 0.2, 0.1))
    torch.testing.assert_close(js(td.Bernoulli(tensor(0.3)), three), js([0.7, 0.3, 0.0], [0.7, 0.2, 0.1]), **TIGHT)
    hot = [td.OneHotCategorical(tensor(*weights)) for weights in ((0.7, 0.3), (0.2, 0.8))]
    torch.testing.assert_close(js(*hot), js([0.7, 0.3], [0.2, 0.8]), **TIGHT)


def test_batches_of_laws():
    p, q = normal([0.0, 1.0, 2.0], 1.0), normal(0.0, [1.0, 2.0, 3.0])
    found = js(p, q)
    singles = [js(normal(m, 1.0), normal(0.0, s)) for m, s in ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0))]
    torch.testing.assert_close(found, torch.stack(singles), **CLOSE)
    grid = normal([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 1.0)
    for one, many in ((normal(0.0, 2.0), grid), (grid, normal(0.0, 2.0)), (grid, normal(0.0, [1.0, 2.0, 3.0]))):
        torch.testing.assert_close(kl(one, many, method="quadrature"), kl(one, many), **CLOSE)
    assert float(js(td.Normal(0.0, 1.0), td.Normal(1.0, 1.0))) == pytest.approx(
        float(js(normal(0.0, 1.0), normal(1.0, 1.0))), abs=1e-6
    )


def test_gradients_flow_through_quadrature():
    mean = tensor(1.0).requires_grad_()

    def value(m):
        return js(normal(0.0, 1.0), td.Normal(m, tensor(1.5)))

    (gradient,) = torch.autograd.grad(value(mean), mean)
    step = 1e-5
    difference = (value(mean.detach() + step) - value(mean.detach() - step)) / (2 * step)
    torch.testing.assert_close(gradient, difference, rtol=1e-7, atol=1e-8)


# -------------------------------------------------------------------------------------------------- Fisher


def test_fisher_divergence_of_normals():
    p, q = normal(0.0, 1.0), normal(1.0, 2.0)
    # the scores are −x and −(x − 1)/4, so the mean square of their gap is E(¾x + ¼)² = 9/16 + 1/16
    torch.testing.assert_close(fisher_divergence(p, q), tensor(10 / 16), **TIGHT)
    torch.testing.assert_close(fisher_divergence(p, q, method="quadrature"), tensor(10 / 16), **CLOSE)
    a, b = gaussian(3, 1), gaussian(3, 2)
    drawn = fisher_divergence(a, b, method="monte_carlo", n=20_000, seed=0)
    assert abs(drawn.value - float(fisher_divergence(a, b))) < 4 * drawn.stderr
    assert fisher_divergence(a, a) == 0
    batch = fisher_divergence(normal([0.0, 0.0], 1.0), normal([1.0, 3.0], 1.0))
    torch.testing.assert_close(batch, tensor(1.0, 9.0), **TIGHT)


def test_fisher_divergence_by_scores_of_densities():
    x = randn(20_000, 2)

    def log_p(z):
        return -0.5 * z.square().sum(-1)

    def log_q(z):  # the constant does not matter
        return -0.125 * (z - 1).square().sum(-1) + 7

    found = fisher_divergence(Samples(x, log_p), Samples(x, log_q))
    assert abs(found.value - 2 * 10 / 16) < 4 * found.stderr
    assert not fisher_divergence(normal(0.0, 1.0), normal(1.0, 1.0), method="quadrature").requires_grad
    width = tensor(2.0).requires_grad_()
    value = fisher_divergence(normal(0.0, 1.0), td.Normal(tensor(1.0), width), method="quadrature")
    exact = fisher_divergence(normal(0.0, 1.0), td.Normal(tensor(1.0), width))
    gradients = [torch.autograd.grad(one, width)[0] for one in (value, exact)]
    torch.testing.assert_close(gradients[0], gradients[1], **CLOSE)
    flat = fisher_divergence(normal(0.0, 1.0), td.Laplace(tensor(0.0), tensor(1.0)))
    expected = integrate.quad(lambda t: stats.norm.pdf(t) * (t - np.sign(t)) ** 2, 0, 12, epsabs=1e-12)[0] * 2
    assert float(flat) == pytest.approx(expected, abs=1e-8)


# ------------------------------------------------------------------------------------------------- samples


def repeated(estimate, truth, times=40):
    found = [estimate(seed) for seed in range(times)]
    values, errors = (np.array([getattr(one, name) for one in found]) for name in ("value", "stderr"))
    spread = values.std(ddof=1)
    return (values.mean() - truth) / (spread / math.sqrt(times)), spread / math.sqrt((errors**2).mean())


@pytest.mark.parametrize("distance", [kl, js, hellinger])
def test_samples_alone(distance):
    def estimate(seed):
        return distance(Samples(randn(400, seed=seed)), Samples(1 + randn(500, seed=seed + 1000)), seed=0)

    truth = float(distance(normal(0.0, 1.0), normal(1.0, 1.0)))
    off, calibration = repeated(estimate, truth)
    assert abs(off) < 5  # 40 runs see a small bias of neighbors at n = 400, which falls with n
    assert 0.6 < calibration < 1.6
    large = distance(Samples(randn(20_000)), Samples(1 + randn(20_000, seed=1)), seed=0)
    assert abs(large.value - truth) < 4 * large.stderr


def test_samples_against_a_law():
    X, law = randn(4000, 2), td.Independent(td.Normal(torch.full((2,), 0.5, dtype=D), 1.0), 1)
    own = td.Independent(td.Normal(torch.zeros(2, dtype=D), 1.0), 1)
    for found in (
        kl(Samples(X), law, seed=0),
        kl(Samples(X, own.log_prob), law, seed=0),
        kl(own, Samples(X + 0.5), n=4000, seed=0),
        kl(Samples(X, own.log_prob), Samples(X, law.log_prob)),
    ):
        assert abs(found.value - 0.25) < 4 * found.stderr
    sharp, blunt = kl(Samples(X, own.log_prob), law).stderr, kl(Samples(X), law, seed=0).stderr
    assert sharp < blunt  # a density is worth more than neighbors
    found = js(own, Samples(X + 0.5), n=4000, seed=0)
    exact = js(own, law, method="monte_carlo", n=40_000, seed=0)
    assert abs(found.value - exact.value) < 4 * (found.stderr + exact.stderr)


def test_samples_with_densities():
    x, y = randn(5000), 1 + 2 * randn(5000, seed=1)
    p, q = normal(0.0, 1.0), normal(1.0, 2.0)
    for distance in (js, total_variation, hellinger):
        found = distance(Samples(x, p.log_prob), Samples(y, q.log_prob))
        assert abs(found.value - float(distance(p, q, method="quadrature"))) < 4 * found.stderr


def test_labels():
    p, q = tensor(0.1, 0.3, 0.6), tensor(0.3, 0.3, 0.4)
    source = torch.Generator().manual_seed(0)
    x, y = (torch.multinomial(weights, 5000, True, generator=source) for weights in (p, q))
    for distance in (kl, js, total_variation, hellinger):
        found = distance(Samples(x), Samples(y), seed=0)
        assert abs(found.value - float(distance(p, q))) < 4 * found.stderr
        known = distance(td.Categorical(p), Samples(y), n=5000, seed=0)
        assert abs(known.value - float(distance(p, q))) < 4 * known.stderr
    against = kl(Samples(x), td.Categorical(q), seed=0)
    assert abs(against.value - float(kl(p, q))) < 4 * against.stderr
    coin = (x > 1).long()
    against = kl(Samples(coin), td.Bernoulli(tensor(0.5)), seed=0)
    assert abs(against.value - float(kl([0.4, 0.6], [0.5, 0.5]))) < 4 * against.stderr
    assert kl(Samples([0, 1]), Samples([0, 0])).value == math.inf


def test_samples_repeat_with_a_seed_and_change_no_state():
    before = torch.random.get_rng_state()
    first, second = (js(Samples(randn(200)), Samples(randn(300, seed=1)), seed=3) for _ in range(2))
    assert first == second and torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kl([0.5, 0.5], td.Bernoulli(0.5)), "p is a list and q a Bernoulli"),
        (lambda: kl([0.5, 0.5], [0.3, 0.3, 0.4]), "p has 2 outcomes and q has 3"),
        (lambda: kl(randn(9).abs(), randn(9).abs()), r"wrap samples in Samples\(x\)"),
        (lambda: kl(td.Poisson(1.0), td.Normal(0.0, 1.0)), "one law is discrete"),
        (lambda: kl(gaussian(2, 0), gaussian(3, 0)), "values of shapes"),
        (lambda: kl(normal(0.0, 1.0), td.StudentT(tensor(3.0)), method="closed"), "no closed form is known for Normal"),
        (lambda: js(normal(0.0, 1.0), normal(0.0, 1.0), method="montecarlo"), "did you mean 'monte_carlo'"),
        (lambda: kl(Samples([1.0, 1.0, 1.0, 1.0, 1.0]), Samples(randn(5))), "repeated more than 3 times"),
        (lambda: kl(Samples(randn(3)), Samples(randn(30))), "3 draws have no 3-th neighbor"),
        (lambda: total_variation(Samples(randn(9)), Samples(randn(9))), "need densities"),
        (lambda: kl(Samples(randn(9, 2)), Samples(randn(9))), "2 and 1 columns"),
        (lambda: js(Samples(randn(9, 2)), Samples(randn(9, 3))), "2 and 3 columns"),
        (lambda: kl(Samples(randn(9)), Samples([1, 2, 3])), "labels .* and the other of measurements"),
        (lambda: kl(Samples(randn(9)), td.Poisson(1.0)), "one law is discrete"),
        (lambda: kl(Samples(randn(9, 2)), normal(0.0, 1.0)), "values of shapes"),
        (lambda: fisher_divergence([0.5, 0.5], [0.5, 0.5]), "both laws need a density"),
        (lambda: fisher_divergence(Samples(randn(9)), normal(0.0, 1.0)), "both laws need a density"),
        (lambda: fisher_divergence(td.Poisson(1.0), td.Poisson(2.0)), "has no score"),
        (lambda: kl(Samples(randn(5, 2), lambda x: x), gaussian(2, 0)), "one number a draw"),
        (lambda: kl(normal(0.0, 1.0), normal(1.0, 1.0), method="monte_carlo", n=1), "at least 2 draws"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device():
    p, q = (td.Normal(tensor(m).cuda(), tensor(1.0).cuda()) for m in (0.0, 1.0))
    here = js(normal(0.0, 1.0), normal(1.0, 1.0))
    assert js(p, q).device.type == "cuda"
    torch.testing.assert_close(js(p, q).cpu(), here, **CLOSE)
    drawn = js(p, q, method="monte_carlo", seed=0)
    assert abs(drawn.value - float(here)) < 4 * drawn.stderr
    x, y = randn(500, 2), 1 + randn(500, 2, seed=1)
    there = kl(Samples(x.cuda()), Samples(y.cuda()), seed=0)
    assert there.value == pytest.approx(kl(Samples(x), Samples(y), seed=0).value, abs=1e-8)
