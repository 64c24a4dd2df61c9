"""Exponential families against scipy.stats, their own calculus, and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from benthic.base.errors import InvalidInput
from benthic.distributions.continuous import Normal
from benthic.distributions.exponential import Family, Support, natural_by_newton
from benthic.distributions.families import NAMED, family_of
from benthic.distributions.product import Product

pytestmark = pytest.mark.spec("H-02")

# name: natural parameters of a member, and the same member in scipy
MEMBERS = {
    "normal": [((1.5, 0.25), stats.norm(1.5, 0.5)), ((-3.0, 4.0), stats.norm(-3.0, 2.0))],
    "poisson": [((0.3,), stats.poisson(0.3)), ((7.5,), stats.poisson(7.5))],
    "bernoulli": [((0.2,), stats.bernoulli(0.2)), ((0.9,), stats.bernoulli(0.9))],
    "exponential": [((0.5,), stats.expon(scale=2.0)), ((4.0,), stats.expon(scale=0.25))],
    "geometric": [((0.3,), stats.geom(0.3, loc=-1)), ((0.8,), stats.geom(0.8, loc=-1))],
    "gamma": [((0.6, 2.0), stats.gamma(0.6, scale=0.5)), ((9.0, 0.5), stats.gamma(9.0, scale=2.0))],
    "beta": [((0.7, 1.8), stats.beta(0.7, 1.8)), ((12.0, 5.0), stats.beta(12.0, 5.0))],
    "lognormal": [
        ((0.4, 0.09), stats.lognorm(0.3, scale=math.exp(0.4))),
        ((-1.0, 1.0), stats.lognorm(1.0, scale=math.exp(-1))),
    ],
}
TO_NATURAL = {
    "normal": lambda m, v: (m / v, -0.5 / v),
    "poisson": lambda rate: (math.log(rate),),
    "bernoulli": lambda p: (math.log(p / (1 - p)),),
    "exponential": lambda rate: (-rate,),
    "geometric": lambda p: (math.log1p(-p),),
    "gamma": lambda shape, rate: (shape, -rate),
    "beta": lambda a, b: (a, b),
    "lognormal": lambda m, v: (m / v, -0.5 / v),
}
CASES = [
    pytest.param(
        NAMED[name], torch.tensor(TO_NATURAL[name](*known), dtype=torch.float64), known, law, id=f"{name}{known}"
    )
    for name, members in MEMBERS.items()
    for known, law in members
]
each_member = pytest.mark.parametrize(("family", "eta", "known", "law"), CASES)


def expectation(law, function) -> float:
    """E[f(x)] by scipy: a sum over counts, else an integral over quantiles."""
    if hasattr(law.dist, "pmf"):
        x = np.arange(law.ppf(1e-16), law.ppf(1 - 1e-16) + 1)
        return float(law.pmf(x) @ function(x))
    # x = quantile(σ(t)) makes the integrand smooth and gone at both ends, where the trapezoid rule is exact
    t = np.linspace(-36.0, 36.0, 8001)
    tail = 1 / (1 + np.exp(np.abs(t)))
    x = np.where(t < 0, law.ppf(tail), law.isf(tail))
    return float(np.sum(function(x) * tail * (1 - tail)) * (t[1] - t[0]))


def test_every_named_family_is_tested():
    assert set(MEMBERS) == set(NAMED)


@each_member
def test_densities_are_those_of_scipy(family, eta, known, law):
    x = law.rvs(200, random_state=0).astype(float)
    reference = law.logpmf(x) if family.measure == "mass" else law.logpdf(x)
    np.testing.assert_allclose(family.log_prob(torch.tensor(x), eta), reference, rtol=1e-10, atol=1e-11)


@each_member
def test_the_gradient_of_the_log_partition_is_the_mean_of_the_statistics(family, eta, known, law):
    found = family.expected_statistics(eta)
    for i in range(family.size):
        mean = expectation(
            law, lambda x, i=i: family.statistics(torch.as_tensor(x, dtype=torch.float64))[..., i].numpy()
        )
        assert float(found[i]) == pytest.approx(mean, rel=1e-8, abs=1e-9)


@each_member
def test_the_hessian_of_the_log_partition_is_the_covariance_of_the_statistics(family, eta, known, law):
    hessian = torch.autograd.functional.hessian(family.log_partition, eta)
    mean = family.expected_statistics(eta)

    def product(x, i, j):
        centered = (family.statistics(torch.as_tensor(x, dtype=torch.float64)) - mean).numpy()
        return centered[..., i] * centered[..., j]

    for i in range(family.size):
        for j in range(family.size):
            covariance = expectation(law, lambda x, i=i, j=j: product(x, i, j))
            assert float(hessian[i, j]) == pytest.approx(covariance, rel=1e-7, abs=1e-9)


@each_member
def test_mean_and_readable_parameters(family, eta, known, law):
    assert float(family.mean(eta)) == pytest.approx(law.mean(), rel=1e-12)
    assert [float(value) for value in family.parameters(eta).values()] == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("name", NAMED)
def test_natural_inverts_the_mean(name):
    family, rng = NAMED[name], np.random.default_rng(0)
    wide = {
        "normal": lambda: (rng.normal() * 5, math.exp(rng.normal() * 2)),
        "poisson": lambda: (math.exp(rng.normal() * 3),),
        "bernoulli": lambda: (rng.uniform(1e-4, 1 - 1e-4),),
        "exponential": lambda: (math.exp(rng.normal() * 3),),
        "geometric": lambda: (rng.uniform(1e-4, 1 - 1e-4),),
        "gamma": lambda: (math.exp(rng.normal() * 2.5), math.exp(rng.normal() * 3)),
        "beta": lambda: (math.exp(rng.normal() * 2), math.exp(rng.normal() * 2)),
        "lognormal": lambda: (rng.normal() * 3, math.exp(rng.normal() * 2)),
    }
    eta = torch.tensor([TO_NATURAL[name](*wide[name]()) for _ in range(300)], dtype=torch.float64).view(20, 15, -1)
    found = family.natural(family.expected_statistics(eta))
    assert found.shape == eta.shape
    np.testing.assert_allclose(found, eta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["normal", "lognormal", "poisson", "bernoulli", "exponential", "geometric"])
def test_newton_agrees_with_the_closed_form(name):
    family = NAMED[name]
    generator = torch.Generator().manual_seed(1)
    sample = family.draw(torch.tensor(family.reference, dtype=torch.float64).expand(40, 60, -1), generator)
    means = family.statistics(sample * 1.5 if name in ("normal", "exponential") else sample).mean(1)
    np.testing.assert_allclose(natural_by_newton(family, means), family.natural(means), rtol=1e-9, atol=1e-11)


def test_newton_stays_in_the_domain_and_climbs_from_a_bad_start():
    family = NAMED["gamma"]
    eta = torch.tensor([[300.0, -0.01], [0.02, -50.0]], dtype=torch.float64)
    means = family.expected_statistics(eta)
    start = torch.tensor([[1e-3, -1e3], [1e4, -1e-3]], dtype=torch.float64)
    np.testing.assert_allclose(natural_by_newton(family, means, start), eta, rtol=1e-8)
    outside = torch.tensor([[-1.0, 1.0], [torch.nan, -1.0]], dtype=torch.float64)
    np.testing.assert_allclose(natural_by_newton(family, means, outside), eta, rtol=1e-8)
    one_step = natural_by_newton(family, means, start, max_iter=1)

    def loss(at):
        return family.log_partition(at) - (at * means).sum(-1)

    assert (loss(one_step) < loss(start)).all() and family.domain(one_step).all()


@pytest.mark.parametrize("name", NAMED)
def test_means_at_the_edge_give_finite_parameters(name):
    family = NAMED[name]
    x = {"bernoulli": [0.0, 1.0], "beta": [0.3, 0.7], "gamma": [1e-8, 5.0], "lognormal": [1.0, 5.0]}.get(
        name, [0.0, 3.0]
    )
    edge = family.statistics(torch.tensor(x, dtype=torch.float64))  # every row the same
    eta = family.natural(edge)
    assert torch.isfinite(eta).all() and family.domain(eta).all()
    assert torch.isfinite(family.log_prob(torch.tensor(x, dtype=torch.float64), eta)).all()


@each_member
def test_draws_have_the_expected_statistics(family, eta, known, law):
    n = 20_000
    drawn = family.draw(eta.expand(n, -1), torch.Generator().manual_seed(0))
    assert family.support.contains(drawn).all()
    error = torch.autograd.functional.hessian(family.log_partition, eta).diagonal().div(n).sqrt()
    distance = (family.statistics(drawn).mean(0) - family.expected_statistics(eta)).abs()
    assert (distance < 4.5 * error).all()
    again = family.draw(eta.expand(n, -1), torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


def test_draws_of_tiny_shapes_do_not_leave_the_support():
    shape = torch.tensor([0.001, 0.001], dtype=torch.float64).expand(1000, -1)
    product = Product([NAMED["beta"], NAMED["gamma"]], torch.zeros(2).double(), torch.ones(2).double())
    eta = torch.cat((shape, shape * torch.tensor([1.0, -1.0])), 1)
    drawn = product.draw(eta, torch.Generator().manual_seed(0))
    product.refuse_outsiders(drawn, ["share", "time"])
    rounded = drawn.float()
    assert bool((rounded[:, 0] == 1).any())
    product.refuse_outsiders(product.pull_in(rounded), ["share", "time"])


@pytest.mark.parametrize(("name", "shift"), [("normal", 7.0), ("gamma", 0.0), ("exponential", 0.0), ("lognormal", 0.0)])
def test_parameters_follow_a_change_of_units(name, shift):
    family = NAMED[name]
    _, eta, _, law = next(case.values for case in CASES if case.values[0] is family)
    x = torch.tensor(law.rvs(50, random_state=1))
    scale = torch.tensor(3.5, dtype=torch.float64)
    moved = family.in_units(eta, torch.tensor(shift, dtype=torch.float64), scale)
    np.testing.assert_allclose(
        family.log_prob(shift + scale * x, moved), family.log_prob(x, eta) - scale.log(), rtol=1e-10
    )


@pytest.mark.parametrize("name", NAMED)
def test_units_make_columns_moderate_and_leave_masses_alone(name):
    family = NAMED[name]
    x = family.draw(
        torch.tensor(family.reference, dtype=torch.float64).expand(500, 2, -1), torch.Generator().manual_seed(0)
    )
    x = x * 1e6 if family.support == Support(0.0) or name in ("normal", "gamma", "lognormal") else x
    shift, scale = family.units(x, torch.ones(500, dtype=torch.float64))
    if family.measure == "mass" or name == "beta":
        assert (shift == 0).all() and (scale == 1).all()
    else:
        assert (((x - shift) / scale).abs().mean(0) < 5).all() and (scale > 1e5).all()


@pytest.mark.parametrize("name", [n for n in NAMED if n != "bernoulli"])
def test_the_nearly_normal_view_is_monotone(name):
    family = NAMED[name]
    x = family.support.pull_in(torch.linspace(0.0, 1.0, 50, dtype=torch.float64))
    assert (family.normal_view(x).diff() > 0).all()


# -- supports -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad", "allowed"),
    [
        ("poisson", [-1.0, 1.5], "whole numbers >= 0"),
        ("bernoulli", [2.0, 0.5], "whole numbers from 0 to 1"),
        ("exponential", [-0.1], "numbers >= 0"),
        ("geometric", [0.5], "whole numbers >= 0"),
        ("gamma", [0.0, -2.0], "numbers > 0"),
        ("beta", [0.0, 1.0, 3.0], "numbers from 0 to 1, ends excluded"),
        ("lognormal", [0.0], "numbers > 0"),
    ],
)
def test_values_outside_the_support_are_named(name, bad, allowed):
    product = Product([NAMED["normal"], NAMED[name]], torch.zeros(2), torch.ones(2))
    for value in bad:
        rows = torch.tensor([[-5.0, torch.nan], [3.0, value]])
        with pytest.raises(
            InvalidInput, match=rf"column dose has 1 value such as {value:g}, .*{name}.* only {allowed}$"
        ):
            product.refuse_outsiders(rows, ["age", "dose"])


def test_unknown_families_are_refused():
    with pytest.raises(InvalidInput, match="did you mean 'poisson'"):
        family_of("poison")
    with pytest.raises(InvalidInput, match="family 3 is unknown; use normal, .* or a Family of your own"):
        family_of(3)


# -- products ----------------------------------------------------------------------------------------


def mixed():
    families = [NAMED[n] for n in ("poisson", "normal", "poisson", "beta")]
    shift, scale = torch.tensor([0.0, 10.0, 0.0, 0.0]).double(), torch.tensor([1.0, 2.0, 1.0, 1.0]).double()
    product = Product(families, shift, scale)
    # family after family: two poisson columns, then normal, then beta; component by component
    eta = torch.tensor([[0.5, 1.0, 0.3, -0.5, 2.0, 3.0], [2.0, -1.0, -1.0, -0.2, 5.0, 1.5]], dtype=torch.float64)
    rows = torch.tensor([[3.0, 11.0, 0.0, 0.2], [0.0, 6.5, 4.0, 0.9]], dtype=torch.float64)
    return product, eta, rows


def by_scipy(rows):
    """Log-densities of the columns of ``mixed``, (k, n, d)."""
    laws = [
        (
            stats.poisson(math.exp(0.5)),
            stats.norm(10 + 2 * 0.3, 2.0),
            stats.poisson(math.exp(1.0)),
            stats.beta(2.0, 3.0),
        ),
        (
            stats.poisson(math.exp(2.0)),
            stats.norm(10 - 2 * 2.5, 2 * math.sqrt(2.5)),
            stats.poisson(math.exp(-1.0)),
            stats.beta(5.0, 1.5),
        ),
    ]
    return np.array(
        [
            np.stack(
                [
                    (law.logpmf if hasattr(law.dist, "pmf") else law.logpdf)(rows[:, j])
                    for j, law in enumerate(component)
                ],
                1,
            )
            for component in laws
        ]
    )


def test_a_product_is_the_sum_of_its_columns_in_their_order():
    product, eta, rows = mixed()
    np.testing.assert_allclose(product.log_prob(product.read(rows), eta), by_scipy(rows.numpy()).sum(2), rtol=1e-12)
    found = product.parameters(eta)
    np.testing.assert_allclose(
        found["rate"], [[math.exp(0.5), np.nan, math.e, np.nan], [math.exp(2), np.nan, math.exp(-1), np.nan]]
    )
    np.testing.assert_allclose(found["mean"][:, 1], [10.6, 5.0])
    np.testing.assert_allclose(found["variance"][:, 1], [4.0, 10.0])
    np.testing.assert_allclose(product.mean(eta)[0], [math.exp(0.5), 10.6, math.e, 0.4])
    assert product.measure == "density" and Product(product.families[:1], *torch.ones(2, 1)).measure == "mass"


def test_gaps_are_left_out_of_the_product():
    product, eta, rows = mixed()
    gaps = torch.tensor([[True, False, False, True], [False, True, True, True]])
    found = product.log_prob(product.read(torch.where(gaps, torch.nan, rows)), eta)
    np.testing.assert_allclose(found, np.where(gaps, 0.0, by_scipy(rows.numpy())).sum(2), rtol=1e-12)
    nothing = product.log_prob(product.read(torch.full((1, 4), torch.nan)), eta)
    np.testing.assert_array_equal(nothing, 0.0)


def test_gradients_flow_to_rows():
    product = Product([NAMED["gamma"], Normal()], torch.tensor([0.0, 3.0]).double(), torch.tensor([2.0, 0.5]).double())
    eta = torch.tensor([[3.0, -1.0, 0.2, -0.5]], dtype=torch.float64)
    x = torch.tensor([[1.5, 2.0], [0.3, 4.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: product.log_prob(product.read(rows), eta), x)


# -- a family of one's own -----------------------------------------------------------------------------


class Rayleigh(Family):
    """p(x) = x/σ² exp(−x²/2σ²): T(x) = x², η = −1/2σ²."""

    name, support, reference = "rayleigh", Support(0.0, open=True), (-0.5,)

    def statistics(self, x):
        return x.square()[..., None]

    def log_base(self, x):
        return x.log()

    def log_partition(self, eta):
        return -torch.log(-2 * eta[..., 0])

    def domain(self, eta):
        return eta[..., 0] < 0

    def mean(self, eta):
        return torch.sqrt(-math.pi / (4 * eta[..., 0]))

    def draw(self, eta, generator):
        return torch.sqrt(torch.log1p(-torch.rand(eta.shape[:-1], generator=generator, dtype=eta.dtype)) / eta[..., 0])


def test_a_family_of_ones_own_needs_six_methods():
    family, sigma = Rayleigh(), np.array([0.2, 1.0, 30.0])
    eta = torch.tensor(-0.5 / sigma**2)[:, None]
    x = torch.linspace(0.1, 3.0, 9, dtype=torch.float64)[:, None]
    np.testing.assert_allclose(family.log_prob(x, eta), stats.rayleigh(scale=sigma).logpdf(x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(family.natural(torch.tensor(2 * sigma**2)[:, None]), eta, rtol=1e-10)
    np.testing.assert_allclose(family.mean(eta), stats.rayleigh(scale=sigma).mean())
    assert list(family.parameters(eta)) == ["eta_0"] and repr(family) == "Rayleigh()"
