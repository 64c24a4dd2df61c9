"""The continuous flow: a density that integrates to one, an invertible map, and what it learns."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import benthic
from benthic.calculus import divergence
from benthic.data.toys import moons
from benthic.dynamics import SolveError
from benthic.generative.flows.continuous import CONTROLLED
from benthic.generative.flows.gaps import Moments, fill_gaps
from benthic.generative.flows.network import FlowNetwork, log_normal, rademacher
from benthic.nets.field import CURVES, TimeField

pytestmark = pytest.mark.spec("E-04")
MOONS = moons().sample(1000, seed=0)


def strong_field(width, hidden, nonlinearity="tanh"):
    """A field that moves points by about their own size, in float64."""
    torch.manual_seed(0)
    field = TimeField(width, hidden, nonlinearity).double()
    torch.nn.init.normal_(field.last.weight, std=1.5 / math.sqrt(hidden[-1]))
    return field


def network(width=2, hidden=(16, 16)):
    return FlowNetwork(strong_field(width, hidden), exact=True, method="rk4", steps=4)


@pytest.fixture(scope="module")
def flow():
    """A small flow of the moons."""
    settings = {"steps": 350, "lr": 1e-2, "batch_size": 128}
    return benthic.ContinuousFlow(
        (24, 24), method="midpoint", solver_steps=5, rtol=1e-5, atol=1e-5, trainer=settings, random_state=0
    ).fit(MOONS)


# -- the field ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nonlinearity", CURVES)
@pytest.mark.parametrize("hidden", [(8,), (8, 7), (5, 6, 7)])
def test_the_divergence_of_a_field_is_the_trace_of_its_jacobian(hidden, nonlinearity):
    field, x = strong_field(3, hidden, nonlinearity), torch.randn(5, 3, dtype=torch.float64)
    for t in (torch.tensor(0.3, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)):
        value, trace = field.with_divergence(t, x)
        torch.testing.assert_close(value, field(t, x))
        torch.testing.assert_close(trace, divergence(lambda z, t=t: field(t, z), x), rtol=1e-12, atol=1e-12)


def test_products_with_the_jacobian_agree_with_autograd():
    field, x = strong_field(3, (8, 7)), torch.randn(5, 3, dtype=torch.float64)
    t, v = torch.tensor(0.6, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64)
    products = field.with_products(t, x, v)[1]
    for one, product in zip(v, products, strict=True):
        expected = torch.func.jvp(lambda z: field(t, z), (x,), (one,))[1]
        torch.testing.assert_close(product, expected, rtol=1e-12, atol=1e-12)


def test_a_new_field_is_zero_so_that_training_begins_at_the_identity():
    x = torch.randn(6, 3)
    net = FlowNetwork(TimeField(3, (8, 8)), exact=True, method="rk4", steps=2)
    torch.testing.assert_close(net(x), -log_normal(x))


# -- the density -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(16, 16), (8, 8, 8)])
def test_log_density_is_the_change_of_variables_of_the_flow_map(hidden):
    """log p(x) = log N(u(x)) + log|det ∂u/∂x| for u the map to codes, by autograd through the solve."""
    net, x = network(3, hidden), torch.randn(4, 3, dtype=torch.float64)

    def to_code(row):
        return net.carry(row[None], [1.0, 0.0], 1e-10, 1e-10)[-1][0]

    codes = torch.stack([to_code(row) for row in x])
    jacobians = torch.stack([torch.func.jacrev(to_code)(row) for row in x])
    expected = log_normal(codes) + torch.linalg.slogdet(jacobians).logabsdet
    assert torch.linalg.slogdet(jacobians).logabsdet.abs().min() > 0.05  # the map does change volumes
    torch.testing.assert_close(net.log_density(x, 1e-10, 1e-10), expected, rtol=0, atol=1e-7)


def test_the_sign_of_the_trace():
    """Along f = a z points spread by exp(a) and the density falls by a for each column."""
    field = TimeField(2, (8,)).double()
    field.with_divergence = lambda t, z, *_: (0.7 * z, torch.full_like(z[:, 0], 1.4))
    net = FlowNetwork(field, exact=True, method="rk4", steps=16)
    x = torch.randn(5, 2, dtype=torch.float64)
    scale = torch.tensor(math.exp(0.7), dtype=torch.float64)
    expected = torch.distributions.Normal(0.0, scale).log_prob(x).sum(1)
    torch.testing.assert_close(net.log_density(x, 1e-10, 1e-10), expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(-net.eval()(x), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", CONTROLLED)
def test_controlled_steps_of_training_are_as_accurate_as_asked(method):
    """A dozen steps, each with an error near the tolerance; one step of the same method is far off."""
    field, x = strong_field(2, (16, 16)), torch.randn(200, 2, dtype=torch.float64)
    exact = -FlowNetwork(field, exact=True, method=method).log_density(x, 1e-11, 1e-11)
    for tolerance in (1e-2, 1e-4):
        found = FlowNetwork(field, exact=True, method=method, tolerance=tolerance)(x)
        assert (found - exact).square().mean().sqrt() < 12 * tolerance
    once = FlowNetwork(field, exact=True, method=method, steps=1)(x)
    assert (once - exact).square().mean().sqrt() > 12 * 1e-4


def test_log_prob_is_accurate_far_beyond_what_densities_are_compared_to(flow):
    """A tolerance of 1e-5 for each step gives 1e-3 for every row and 1e-4 for the mean."""
    fine = copy.copy(flow).set_params(rtol=1e-11, atol=1e-11).log_prob(MOONS[:300])
    error = flow.log_prob(MOONS[:300]) - fine
    assert np.abs(error).max() < 1e-3 and abs(error.mean()) < 1e-4


def test_the_density_integrates_to_one(flow):
    low, high = MOONS.min(0) - 1.0, MOONS.max(0) + 1.0
    x, y = (np.linspace(a, b, 101) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    mass = np.exp(flow.log_prob(grid)).sum() * (x[1] - x[0]) * (y[1] - y[0])
    assert mass == pytest.approx(1.0, abs=1e-3)


def test_the_likelihood_is_declared(flow):
    found = flow.likelihood(MOONS[:50])
    assert (found.kind, found.bound, found.measure) == ("ode", "exact", "density")
    np.testing.assert_array_equal(found.value, flow.log_prob(MOONS[:50]))
    assert not found.stderr.any()
    estimate = flow.likelihood(MOONS[:50], "hutchinson(8)")
    assert (estimate.kind, estimate.bound) == ("ode", "estimate") and (estimate.stderr > 0).all()


def test_hutchinson_estimates_are_unbiased(flow):
    """The mean over many probes is within five standard errors of the exact trace, row by row."""
    exact = flow.log_prob(MOONS[:40])
    found = flow.likelihood(MOONS[:40], "hutchinson(200)")
    assert (np.abs(found.value - exact) < 5 * found.stderr + 1e-5).all()
    z = (found.value - exact) / found.stderr
    assert abs(z.mean()) < 5 / math.sqrt(40)


def test_training_on_hutchinson_estimates_has_the_right_expectation():
    x = torch.randn(8, 3, dtype=torch.float64)
    field = strong_field(3, (8, 8))
    exact = FlowNetwork(field, exact=True, method="rk4", steps=2).eval()(x)
    noisy = FlowNetwork(field, exact=False, method="rk4", steps=2).eval()
    with torch.no_grad():
        draws = torch.stack([noisy(x) for _ in range(200)])
    assert draws.std(0).max() > 0
    assert ((draws.mean(0) - exact).abs() < 5 * draws.std(0) / math.sqrt(200) + 1e-9).all()


def test_probes_are_signs_drawn_from_the_generator():
    like = torch.zeros(1, dtype=torch.float64)
    a, b = (rademacher((2, 3, 4), like, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(a, b) and set(a.unique().tolist()) == {-1.0, 1.0}


def test_the_score_is_the_gradient_of_the_log_density(flow):
    x, h = MOONS[:6], 1e-4
    for j in range(2):
        e = h * np.eye(2)[j]
        slope = (flow.log_prob(x + e) - flow.log_prob(x - e)) / (2 * h)
        np.testing.assert_allclose(flow.grad_log_prob(x)[:, j], slope, rtol=0.02, atol=0.05)


# -- the map -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tolerance", "error"), [(1e-5, 1e-2), (1e-7, 1e-4), (1e-9, 1e-6)])
def test_codes_and_examples_are_inverse_to_each_other(flow, tolerance, error):
    """To the tolerance of the solver, which the flow stretches by up to some hundred times."""
    exact = copy.copy(flow).set_params(rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(exact.decode(exact.encode(MOONS[:300])), MOONS[:300], rtol=0, atol=error)
    codes = np.random.default_rng(0).normal(size=(100, 2))
    np.testing.assert_allclose(exact.encode(exact.decode(codes)), codes, rtol=0, atol=error)


def test_codes_are_standard_normal(flow):
    codes = flow.encode(moons().sample(2000, seed=5))
    assert np.abs(codes.mean(0)).max() < 0.15 and np.abs(np.cov(codes.T) - np.eye(2)).max() < 0.25


def test_paths_begin_at_the_codes_and_end_at_the_examples(flow):
    codes = flow.encode(MOONS[:20])
    paths = flow.paths(codes, [0.0, 0.4, 1.0])
    assert paths.shape == (3, 20, 2)
    np.testing.assert_allclose(paths[0], codes * MOONS.std(0) + MOONS.mean(0), atol=1e-9)
    np.testing.assert_allclose(paths[-1], flow.decode(codes), atol=1e-5)
    for times in ([0.0], [0.2, 1.0], [0.0, 0.5, 0.5], [0.0, 2.0]):
        with pytest.raises(ValueError, match=r"ContinuousFlow.paths: times must rise from 0"):
            flow.paths(codes, times)


# -- what is learned ---------------------------------------------------------------------------------------


def test_a_gaussian_is_learned_to_its_entropy():
    rng = np.random.default_rng(0)
    root = np.array([[2.0, 0.0, 0.0], [1.5, 0.5, 0.0], [-1.0, 0.3, 0.8]])
    X = rng.normal(size=(4000, 3)) @ root.T + np.array([1.0, -20.0, 300.0])
    settings = {"steps": 300, "lr": 1e-2}
    model = benthic.ContinuousFlow((24,), method="midpoint", solver_steps=3, trainer=settings, random_state=0).fit(
        X[:2000]
    )
    entropy = 0.5 * 3 * (1 + math.log(2 * math.pi)) + math.log(np.linalg.det(root))
    held_out = -model.score(X[2000:])
    sampling = 5 * math.sqrt(1.5 / 2000)  # -log p of a Gaussian in 3-D has variance 3/2
    assert entropy - sampling < held_out < entropy + sampling + 0.05


def test_moons_beat_one_gaussian_clearly(flow):
    test = moons().sample(1000, seed=1)
    gaussian = benthic.GaussianMixture(1).fit(MOONS).score(test)
    truth = moons().log_prob(test).mean()
    assert gaussian + 0.5 < flow.score(test) < truth + 0.05
    assert flow.score(test) > truth - 0.35
    assert flow.anomaly([[0.5, 3.0]])[0] > flow.anomaly(test).mean() + 3


def test_what_training_believes_is_what_the_density_says():
    """With steps controlled by their error a fast rate finds no error to profit from; two fixed steps are fooled.

    Over the last epoch the rows are those of the score, and the rate, and so the change of weights, is near zero.
    """
    gaps = []
    for solver in ({}, {"method": "midpoint", "solver_steps": 2}):
        settings = {"steps": 100, "lr": 3e-2}
        model = benthic.ContinuousFlow((24, 24), regularization=0.0, trainer=settings, random_state=0, **solver)
        model.set_params(rtol=1e-4, atol=1e-4).fit(MOONS)
        believed = model.history_[-1]["loss"] + np.log(MOONS.std(0)).sum()
        gaps.append(-model.score(MOONS) - believed)
    assert abs(gaps[0]) < 0.01
    assert gaps[1] > 3 * abs(gaps[0])


def test_the_budget_grows_with_the_rows_unless_the_trainer_names_one():
    def epochs(rows, trainer=None):
        solver = {"method": "euler", "solver_steps": 1}
        model = benthic.ContinuousFlow((4,), **solver, trainer=trainer, random_state=0).fit(rows)
        return model.n_iter_

    assert epochs(MOONS[:50]) == 100  # of one update
    assert epochs(MOONS) == 50  # of four updates: one for five rows
    assert epochs(MOONS, {"epochs": 3}) == 3


def test_a_field_too_hard_to_solve_stops_training_with_advice():
    tried = []

    def fit_until_one_fails():  # two fields in three become too hard
        for seed in range(12):
            tried.append(benthic.ContinuousFlow((16, 16), trainer={"steps": 20, "lr": 50.0}, random_state=seed))
            tried[-1].fit(MOONS)

    with pytest.raises(SolveError, match=r"ContinuousFlow.fit: the field became too hard .* lower the learning rate"):
        fit_until_one_fails()
    assert not hasattr(tried[-1], "network_")


def test_regularization_shortens_paths():
    lengths = []
    for regularization in (0.0, 1.0):
        settings = {"steps": 150, "lr": 1e-2}
        model = benthic.ContinuousFlow(
            (16,), method="midpoint", solver_steps=3, regularization=regularization, trainer=settings, random_state=0
        ).fit(MOONS)
        paths = model.paths(model.encode(MOONS[:200]), 5)
        lengths.append(np.square(np.diff(paths, axis=0)).sum(-1).sum(0).mean())
    assert lengths[1] < 0.8 * lengths[0]


def test_estimated_traces_train_too_and_have_no_log_prob():
    settings = {"steps": 200, "lr": 1e-2}
    model = benthic.ContinuousFlow(
        (16,), divergence="hutchinson", method="midpoint", solver_steps=4, trainer=settings, random_state=0
    )
    model.fit(MOONS)
    assert not hasattr(model, "log_prob") and "Hutchinson" in model.summary()
    found = model.likelihood(MOONS[:100])
    assert found.bound == "estimate"
    np.testing.assert_array_equal(found.value, model.likelihood(MOONS[:100]).value)  # fixed noise
    assert model.likelihood(MOONS, "exact").mean() > benthic.GaussianMixture(1).fit(MOONS).score(MOONS)


# -- gaps --------------------------------------------------------------------------------------------------


def test_gaps_are_drawn_from_the_conditional_density():
    """For a Gaussian the conditional mean and spread are known in closed form."""
    covariance = torch.tensor([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]], dtype=torch.float64)
    law = torch.distributions.MultivariateNormal(torch.zeros(3, dtype=torch.float64), covariance)
    rows = torch.tensor([[1.5, math.nan, -0.5], [math.nan, math.nan, 2.0]], dtype=torch.float64).repeat(1500, 1)
    wide = Moments(torch.zeros(3, dtype=torch.float64), 1.3 * torch.eye(3, dtype=torch.float64))  # far from the truth
    found = fill_gaps(law.log_prob, rows, wide, torch.Generator().manual_seed(0))
    for first, known, gaps in ((0, [0, 2], [1]), (1, [2], [0, 1])):
        weights = torch.linalg.solve(covariance[known][:, known], covariance[known][:, gaps])
        mean = rows[first, known] @ weights
        spread = (covariance[gaps][:, gaps] - covariance[gaps][:, known] @ weights).diagonal().sqrt()
        drawn = found.draw[first::2][:, gaps]
        assert ((drawn.mean(0) - mean).abs() < 5 * spread / math.sqrt(1500)).all()
        torch.testing.assert_close(drawn.std(0), spread, rtol=0.1, atol=0)
        torch.testing.assert_close(found.draw[first::2][:, known], rows[first::2][:, known])
        assert (found.mean[first::2][:, gaps].std(0) < spread).all()


def test_a_gap_of_the_moons_lies_on_both_of_them(flow):
    drawn = flow.sample(200, given=[[0.5, math.nan]], seed=0)[:, 1]
    truth = moons().log_prob(np.stack([np.full(200, 0.5), drawn], 1))
    assert (truth > -6).mean() > 0.75
    assert 0.25 < (drawn > 0.25).mean() < 0.75  # the two arcs are symmetric about (0.5, 0.25)


# -- pictures and wrong input ------------------------------------------------------------------------------


def test_one_column_and_pictures(flow):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 0.3, 300), rng.normal(2, 0.5, 300)])[:, None]
    settings = {"steps": 200, "lr": 1e-2}
    model = benthic.ContinuousFlow((16,), method="midpoint", solver_steps=4, trainer=settings, random_state=0).fit(X)
    x = np.linspace(-8, 8, 801)[:, None]
    assert np.trapezoid(np.exp(model.log_prob(x)), x[:, 0]) == pytest.approx(1.0, abs=1e-3)
    assert model.plot().axes[0].get_ylabel() == "density"
    assert flow.plot(MOONS).axes[0].images


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"activation": "relu"}, "activation 'relu' is not one for fields.*tanh, softplus, silu"),
        ({"divergence": "exakt"}, "did you mean 'exact'"),
        ({"method": "rk5"}, "did you mean 'rk4'"),
        ({"hidden_layer_sizes": ()}, "hidden_layer_sizes is \\(\\)"),
        ({"hidden_layer_sizes": (8, 0)}, "hidden_layer_sizes"),
        ({"solver_steps": 0}, "solver_steps is 0"),
        ({"method": "rk4"}, "'rk4' does not know its own error; give solver_steps, or use bogacki_shampine"),
        ({"training_tolerance": 0.0}, "training_tolerance 0.0; tolerances must be positive"),
        ({"rtol": 0.0}, "tolerances must be positive"),
        ({"regularization": -1.0}, "regularization is -1.0"),
        ({"regularization": "some"}, "regularization is 'some'"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(ValueError, match=f"ContinuousFlow.fit: .*{words}"):
        benthic.ContinuousFlow(**params).fit(MOONS)


def test_wrong_questions(flow):
    for given in ("a", {"y": 1}, [0.5, math.nan]):
        with pytest.raises(ValueError, match=r"ContinuousFlow.sample: given is .*, not rows .*NaN in their gaps"):
            flow.sample(2, given=given)
    with pytest.raises(ValueError, match=r"method 'elbo' is unknown; use 'exact' or 'hutchinson\(k\)'"):
        flow.likelihood(MOONS, "elbo")
    with pytest.raises(ValueError, match=r"codes have shape \(2, 5\); expected \(n, 2\)"):
        flow.decode(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="n is 0"):
        flow.sample(0)
