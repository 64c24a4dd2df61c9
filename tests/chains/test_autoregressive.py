"""Autoregressions against closed forms, dense Gaussians, SciPy and least squares by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov, solve_toeplitz
from scipy.optimize import minimize as scipy_minimize
from scipy.stats import multivariate_normal, norm

import benthic
from benthic.base.errors import InvalidInput
from benthic.chains.autoregressive import AutoRegressive
from benthic.chains.autoregressive_fits import (
    criteria,
    fitted,
    from_partial_correlations,
    moments,
    partial_correlations,
    stationary_log_prob,
)
from benthic.chains.autoregressive_gaps import kalman, smooth
from benthic.chains.autoregressive_process import Process, conditional_log_prob, exact_log_prob
from benthic.chains.forecast import State, completed, continue_draws, forecasts

pytestmark = pytest.mark.spec("H-05")

LAGS = torch.tensor([[[0.5, 0.2], [-0.1, 0.4]], [[0.2, 0.0], [0.1, -0.3]]], dtype=torch.float64)
NOISE = torch.tensor([[1.0, 0.3], [0.3, 0.5]], dtype=torch.float64)
PAIR = Process(LAGS, torch.tensor([[1.0, 2.0]], dtype=torch.float64), NOISE)


def ar1(n, phi=0.8, constant=2.0, seed=0):
    rng, y = np.random.default_rng(seed), np.zeros(n)
    y[0] = constant / (1 - phi) + rng.normal() / math.sqrt(1 - phi**2)
    for t in range(1, n):
        y[t] = constant + phi * y[t - 1] + rng.normal()
    return y


def dense(process, steps):
    """Mean and covariance of all steps at once, from autocovariances of the companion form by SciPy."""
    C, d = process.companion().numpy(), process.width
    P = solve_discrete_lyapunov(C, process.shock().numpy())
    gammas, power = [], np.eye(len(C))
    for _ in range(steps):
        gammas.append((power @ P)[:d, :d])
        power = C @ power
    blocks = [[gammas[i - j] if i >= j else gammas[j - i].T for j in range(steps)] for i in range(steps)]
    return np.tile(process.level(torch.zeros(1)).numpy().ravel(), steps), np.block(blocks)


# -- learning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trend", "q"), [("n", 0), ("c", 1), ("ct", 2)])
def test_least_squares_is_that_of_numpy_over_all_series(trend, q):
    rng = np.random.default_rng(1)
    series = [rng.normal(size=(n, 2)).cumsum(0) * 0.1 + rng.normal(size=(n, 2)) for n in (30, 9, 50)]
    rows, targets = [], []
    for y in series:
        for t in range(3, len(y)):
            rows.append(np.concatenate([np.array([1.0, t])[:q], y[t - 1], y[t - 2], y[t - 3]]))
            targets.append(y[t])
    solution, *_ = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)
    rest = np.array(targets) - np.array(rows) @ solution
    model = AutoRegressive(3, trend=trend).fit(series)
    expected = solution[q:].reshape(3, 2, 2).transpose(0, 2, 1)
    np.testing.assert_allclose(model.coefficients_, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.stack([model.intercept_, model.slope_])[:q], solution[:q], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(model.covariance_, rest.T @ rest / len(rest), rtol=1e-9)
    assert model.n_windows_ == len(rows)


def test_statistics_add_over_series():
    rng = np.random.default_rng(2)
    parts = [torch.as_tensor(rng.normal(size=(n, 2))) for n in (12, 7)]
    both = moments(torch.cat(parts), torch.tensor([12, 7]), 2, 1)
    added = moments(parts[0], torch.tensor([12]), 2, 1) + moments(parts[1], torch.tensor([7]), 2, 1)
    assert both.count == added.count == 15
    for name in ("gram", "cross", "square"):
        torch.testing.assert_close(getattr(both, name), getattr(added, name), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("trend", ["n", "c", "ct"])
def test_parts_give_what_all_at_once_gives(trend):
    rng = np.random.default_rng(3)
    parts = [[rng.normal(5.0 * i, 1.0, size=(n, 2)) for n in (30, 12)] for i in range(3)]
    parts[1][0][4] = np.nan
    whole = AutoRegressive(2, trend=trend).fit([y for part in parts for y in part])
    model = AutoRegressive(2, trend=trend)
    for part in parts:
        model.partial_fit(part)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.covariance_, whole.covariance_, rtol=1e-9)
    assert model.n_windows_ == whole.n_windows_
    again = AutoRegressive(2, trend=trend).fit(parts[0]).partial_fit(parts[1]).partial_fit(parts[2])
    np.testing.assert_array_equal(again.coefficients_, model.coefficients_)
    np.testing.assert_array_equal(model.forecast(2)[0], again.forecast(2, given=parts[2])[0])
    with pytest.raises(InvalidInput, match="partial_fit: order or trend has changed"):
        model.set_params(order=1).partial_fit(parts[0])
    with pytest.raises(InvalidInput, match="needs a whole number as order"):
        AutoRegressive("bic").partial_fit(parts[0])


def test_a_large_offset_costs_few_digits():
    y = ar1(500)
    near, far = AutoRegressive(2).fit([y]), AutoRegressive(2).fit([y * 1e-3 + 1e5])
    # 1e5 / 1e-3 = 1e8 of the sixteen digits are taken by the offset itself
    np.testing.assert_allclose(far.coefficients_, near.coefficients_, atol=1e-6)
    np.testing.assert_allclose(far.covariance_, near.covariance_ * 1e-6, rtol=1e-6)


def test_windows_with_gaps_are_passed_over():
    y = ar1(200)
    holed = y.copy()
    holed[100] = np.nan
    split = AutoRegressive(2).fit([y[:100], y[101:]])
    model = AutoRegressive(2).fit([holed])
    np.testing.assert_allclose(model.coefficients_, split.coefficients_, rtol=1e-9)
    assert model.n_windows_ == split.n_windows_ == 198 - 3


def test_yule_walker_solves_the_toeplitz_system():
    y = ar1(300)
    z = y - y.mean()
    gamma = np.array([z[k:] @ z[: len(z) - k] / len(z) for k in range(5)])
    expected = solve_toeplitz(gamma[:4], gamma[1:])
    model = AutoRegressive(4, method="yule-walker").fit([y])
    np.testing.assert_allclose(model.coefficients_.ravel(), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.covariance_.ravel(), gamma[0] - expected @ gamma[1:], rtol=1e-9)


def test_yule_walker_of_vectors_reproduces_their_autocovariances():
    drawn = continue_draws(PAIR, State(torch.zeros(1, 2, 2).double(), torch.tensor([2])), 400, torch.Generator())
    y = drawn[0].numpy()
    model = AutoRegressive(2, method="yule-walker").fit([y])
    z = y - y.mean(0)
    expected = [z[k:].T @ z[: len(z) - k] / len(z) for k in range(3)]
    _, covariance = dense(model._process(), 3)
    for k in range(3):
        np.testing.assert_allclose(covariance[2 * k : 2 * k + 2, :2], expected[k], atol=1e-10)
    assert model.is_stationary_


def test_burg_of_order_one_is_its_closed_form():
    parts = [ar1(40), ar1(25, seed=1)]
    mean = np.concatenate(parts).mean()
    z = [part - mean for part in parts]
    top = 2 * sum(v[1:] @ v[:-1] for v in z)
    bottom = sum(v[1:] @ v[1:] + v[:-1] @ v[:-1] for v in z)
    model = AutoRegressive(1, method="burg").fit(parts)
    assert model.coefficients_.item() == pytest.approx(top / bottom, rel=1e-12)


def test_burg_finds_a_sharp_line_in_few_steps():
    t = np.arange(40)
    y = np.cos(2 * np.pi * 0.11 * t) + 1e-3 * np.random.default_rng(0).normal(size=40)
    angle = np.abs(np.angle(AutoRegressive(2, trend="n", method="burg").fit([y]).modes_[0]))
    assert angle / (2 * np.pi) == pytest.approx(0.11, abs=2e-3)


def test_exact_likelihood_is_the_best_of_scipy_on_a_short_series():
    y = ar1(25, phi=0.9)

    def loss(x):
        mean, phi, s2 = x[0], np.tanh(x[1]), np.exp(x[2])
        z = y - mean
        first = norm.logpdf(z[0], scale=np.sqrt(s2 / (1 - phi**2)))
        return -first - norm.logpdf(z[1:], phi * z[:-1], np.sqrt(s2)).sum()

    best = scipy_minimize(loss, [y.mean(), 1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-11})
    model = AutoRegressive(1, method="exact").fit([y])
    assert -model.score([y]) == pytest.approx(best.fun, abs=1e-7)
    assert model.coefficients_.item() == pytest.approx(np.tanh(best.x[1]), abs=1e-4)
    others = [AutoRegressive(1, method=m).fit([y]) for m in ("least-squares", "yule-walker", "burg")]
    assert all(not other.is_stationary_ or other.score([y]) <= model.score([y]) + 1e-9 for other in others)


def test_predictions_of_growing_order_give_the_same_density_as_the_stationary_covariance():
    partial = torch.tensor([0.6, -0.4, 0.2], dtype=torch.float64)
    lags = from_partial_correlations(partial).reshape(-1, 1, 1)
    process = Process(lags, torch.zeros(0, 1).double(), torch.tensor([[0.7]]).double())
    parts = [torch.as_tensor(ar1(n, constant=0.0)) for n in (12, 2, 3, 1)]
    dense_way = exact_log_prob(process, torch.cat(parts)[:, None], torch.tensor([12, 2, 3, 1])).sum()
    torch.testing.assert_close(stationary_log_prob(parts, partial, torch.tensor(0.7).double()), dense_way)


@pytest.mark.parametrize("method", ["least-squares", "yule-walker", "burg", "exact"])
@pytest.mark.parametrize("kind", ["sine", "line", "constant", "step", "far"])
def test_series_without_noise_are_no_trouble(kind, method):
    t = np.arange(120.0)
    y = {
        "sine": np.sin(0.3 * t),
        "line": t,
        "constant": np.zeros(120),
        "step": (t > 60) * 1.0,
        "far": 1e8 + np.random.default_rng(0).normal(size=120),
    }[kind]
    model = AutoRegressive(3, method=method).fit([y])
    assert np.isfinite(model.likelihood([y]).value).all()
    assert np.isfinite(model.forecast_interval(5)[0]).all() and np.isfinite(model.sample(2, length=9, seed=0)).all()


def test_partial_correlations_there_and_back():
    partial = torch.tensor([0.7, -0.5, 0.3, -0.9], dtype=torch.float64)
    torch.testing.assert_close(partial_correlations(from_partial_correlations(partial)), partial)


def test_criteria_are_their_definitions_and_find_the_order():
    y = torch.as_tensor(ar1(800))[:, None]
    z = y - y.mean(0)
    found = criteria(z, torch.tensor([800]), 4, 1)
    rows = np.column_stack([np.ones(796), *(z[4 - k : 800 - k, 0] for k in (1, 2))])
    target = z[4:, 0].numpy()
    rest = target - rows @ np.linalg.lstsq(rows, target, rcond=None)[0]
    log = math.log(rest @ rest / 796)
    assert found["aic"][2] == pytest.approx(log + 2 * 3 / 796, rel=1e-9)
    assert found["bic"][2] == pytest.approx(log + math.log(796) * 3 / 796, rel=1e-9)
    assert found["hq"][2] == pytest.approx(log + 2 * math.log(math.log(796)) * 3 / 796, rel=1e-9)
    for name in ("bic", "hq"):
        model = AutoRegressive(name).fit([y[:, 0].numpy()])
        assert model.order_ == 1 and len(model.criteria_[name]) == 1 + int(12 * 8**0.25)


# -- likelihood ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_exact_likelihood_is_that_of_one_dense_gaussian(steps):
    y = torch.randn(3, steps, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 2.0
    mean, covariance = dense(PAIR, steps)
    expected = multivariate_normal(mean, covariance).logpdf(y.reshape(3, -1).numpy())
    lengths = torch.full((3,), steps)
    np.testing.assert_allclose(exact_log_prob(PAIR, y.reshape(-1, 2), lengths), np.atleast_1d(expected), rtol=1e-10)
    np.testing.assert_allclose(kalman(PAIR, y).log_prob, np.atleast_1d(expected), rtol=1e-10)


def test_gaps_are_integrated_out_and_filled_as_by_one_dense_gaussian():
    y = torch.randn(1, 8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y[0, 2:4] = torch.nan
    y[0, 6, 1] = y[0, 0, 0] = torch.nan
    flat = y.reshape(-1).numpy()
    seen = ~np.isnan(flat)
    mean, covariance = dense(PAIR, 8)
    inner = covariance[np.ix_(seen, seen)]
    expected = multivariate_normal(mean[seen], inner).logpdf(flat[seen])
    assert float(kalman(PAIR, y).log_prob) == pytest.approx(expected, rel=1e-10)
    fill = mean + covariance[:, seen] @ np.linalg.solve(inner, flat[seen] - mean[seen])
    np.testing.assert_allclose(smooth(PAIR, y).reshape(-1), fill, atol=1e-9)


def test_conditional_likelihood_by_hand_and_kinds():
    y = ar1(50)
    model = AutoRegressive(1).fit([y])
    phi, c, s = model.coefficients_.item(), model.intercept_[0], math.sqrt(model.covariance_.item())
    expected = norm.logpdf(y[1:], c + phi * y[:-1], s).sum()
    found = model.likelihood([y], method="conditional")
    assert found.kind == "conditional" and found.value[0] == pytest.approx(expected, rel=1e-12)
    first = norm.logpdf(y[0], c / (1 - phi), s / math.sqrt(1 - phi**2))
    whole = model.likelihood([y])
    assert (whole.kind, whole.bound, whole.measure) == ("exact", "exact", "density")
    assert whole.value[0] == pytest.approx(expected + first, rel=1e-12)
    assert model.score([y]) == pytest.approx(whole.value[0])
    np.testing.assert_allclose(model.log_prob([y]), whole.value)


def test_least_squares_is_the_most_likely_given_the_first_steps():
    y = torch.as_tensor(ar1(80))[:, None]
    lengths = torch.tensor([80])
    best = fitted("least-squares", y, lengths, 2, 1)
    leaves = [part.clone().requires_grad_() for part in (best.coefficients, best.trend, best.covariance)]
    value = conditional_log_prob(Process(*leaves), y, lengths).sum()
    for gradient in torch.autograd.grad(value, leaves):
        assert float(gradient.abs().max()) < 1e-6


def test_a_series_around_a_line_is_stationary_around_it():
    t = np.arange(4000.0)
    noise = ar1(4000, phi=0.5, constant=0.0)
    model = AutoRegressive(1, trend="ct").fit([5.0 + 0.01 * t + noise])
    line = model._process().level(torch.tensor([0.0, 1000.0])).ravel()
    assert float(line[0]) == pytest.approx(5.0, abs=0.25) and float(line[1]) == pytest.approx(15.0, abs=0.25)
    assert model.likelihood([5.0 + 0.01 * t + noise]).kind == "exact"
    later = model.forecast(1000)[0]
    assert later[-1] == pytest.approx(5.0 + 0.01 * 4999, abs=0.5)


def test_radius_is_that_of_the_characteristic_roots():
    model = AutoRegressive(3).fit([ar1(300)])
    polynomial = np.concatenate([-model.coefficients_.ravel()[::-1], [1.0]])[::-1]
    np.testing.assert_allclose(np.sort(np.abs(model.modes_)), np.sort(np.abs(np.roots(polynomial))), rtol=1e-8)
    assert model.radius_ == pytest.approx(np.abs(np.roots(polynomial)).max())


def test_an_explosive_series_is_reported_and_conditional():
    y = 1.5 ** np.arange(20.0) + 0.01 * np.random.default_rng(0).normal(size=20)
    model = AutoRegressive(1, trend="n").fit([y])
    assert not model.is_stationary_ and model.radius_ == pytest.approx(1.5, abs=1e-2)
    assert "not stationary" in model.summary()
    assert model.likelihood([y]).kind == "conditional"
    with pytest.raises(InvalidInput, match="AutoRegressive.likelihood: the process is not stationary"):
        model.likelihood([y], method="exact")
    with pytest.raises(InvalidInput, match="AutoRegressive.impute: the process is not stationary"):
        model.impute([[1.0, np.nan, 2.0]])
    assert model.forecast(2)[0] == pytest.approx(y[-1] * model.coefficients_.item() ** np.array([1, 2]))
    assert model.sample(3, length=5, seed=0)[0][0] == y[0]


# -- what comes next -----------------------------------------------------------------------------------


def test_forecasts_of_order_one_are_closed_forms():
    y = ar1(200)
    model = AutoRegressive(1).fit([y])
    phi, c, s2 = model.coefficients_.item(), model.intercept_[0], model.covariance_.item()
    h = np.arange(1, 31)
    mean = c / (1 - phi) + phi**h * (y[-1] - c / (1 - phi))
    half = norm.ppf(0.975) * np.sqrt(s2 * (1 - phi ** (2 * h)) / (1 - phi**2))
    np.testing.assert_allclose(model.forecast(30)[0], mean, rtol=1e-10)
    expected = np.stack([mean - half, mean + half], -1)
    np.testing.assert_allclose(model.forecast_interval(30, level=0.95)[0], expected, rtol=1e-10)
    np.testing.assert_allclose(model.forecast(30, given=[y[:150]])[0][0], c + phi * y[149], rtol=1e-12)


def test_forecast_covariance_tends_to_the_stationary_one_and_is_that_of_draws():
    torch.testing.assert_close(PAIR.spread(300)[-1], PAIR.stationary()[:2, :2], rtol=1e-10, atol=1e-12)
    state = State(torch.tensor([[[3.0, 1.0], [0.0, 2.0]]]).double(), torch.tensor([2]))
    mean, covariance = forecasts(PAIR, state, 4)
    n = 40_000
    drawn = continue_draws(PAIR, state.repeat(n), 4, torch.Generator().manual_seed(0))
    error = (drawn.mean(0) - mean[0]).abs() / (covariance[0].diagonal(dim1=1, dim2=2) / n).sqrt()
    assert float(error.max()) < 4.5
    for h in range(4):
        centered = drawn[:, h] - drawn[:, h].mean(0)
        ratio = centered.T @ centered / n / covariance[0, h]
        torch.testing.assert_close(ratio, torch.ones(2, 2).double(), rtol=0, atol=0.1)


def test_intervals_hold_what_they_say():
    many = [ar1(80, seed=seed) for seed in range(400)]
    model = AutoRegressive(1).fit(many)
    held = np.array(
        [[low <= y[70] <= high for low, high in model.forecast_interval(1, 0.8, given=[y[:70]])[0]] for y in many]
    )
    assert held.mean() == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 400))


def test_a_gap_at_the_end_widens_the_forecast():
    y = ar1(60)
    model = AutoRegressive(1).fit([y])
    holed = y.copy()
    holed[-1] = np.nan
    one, two = model.forecast_interval(2, given=[y[:-1]])[0]
    np.testing.assert_allclose(model.forecast_interval(1, given=[holed])[0][0], two, rtol=1e-9)
    drawn = np.array(model.sample(20_000, given=[holed], seed=0))
    assert (drawn[:, :-1] == y[:-1]).all()
    low, high = np.quantile(drawn[:, -1], [0.05, 0.95])
    np.testing.assert_allclose([low, high], one, atol=0.04 * (one[1] - one[0]))
    longer = np.array(model.sample(20_000, length=61, given=[holed], seed=0))
    np.testing.assert_allclose(np.quantile(longer[:, -1], [0.05, 0.95]), two, atol=0.04 * (two[1] - two[0]))


def test_gaps_are_drawn_by_their_exact_conditional_law():
    y = torch.randn(7, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    y[2:4] = torch.nan
    y[5, 0] = torch.nan
    drawn = completed(PAIR, y, 30_000, torch.Generator().manual_seed(0)).reshape(30_000, -1)
    flat = y.reshape(-1).numpy()
    seen = ~np.isnan(flat)
    mean, covariance = dense(PAIR, 7)
    gain = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    expected = mean[~seen] + gain @ (flat[seen] - mean[seen])
    spread = covariance[np.ix_(~seen, ~seen)] - gain @ covariance[np.ix_(seen, ~seen)]
    found = drawn[:, torch.as_tensor(~seen)].numpy()
    error = np.abs(found.mean(0) - expected) / np.sqrt(np.diag(spread) / 30_000)
    assert error.max() < 4.5
    np.testing.assert_allclose(np.cov(found.T), spread, atol=0.03)
    assert bool((drawn[:, torch.as_tensor(seen)] == torch.as_tensor(flat[seen])).all())


def test_samples_follow_the_stationary_law():
    model = AutoRegressive(1).fit([ar1(3000)])
    drawn = model.sample(20_000, length=3, seed=0)
    values = np.array(drawn)
    assert values.shape == (20_000, 3)
    phi = model.coefficients_.item()
    spread = math.sqrt(model.covariance_.item() / (1 - phi**2))
    for t in range(3):
        assert values[:, t].std() == pytest.approx(spread, rel=0.05)
    assert np.corrcoef(values[:, 0], values[:, 2])[0, 1] == pytest.approx(phi**2, abs=0.05)


# -- ways in and out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_lists_and_tensors_give_the_same(dtype):
    X = np.random.default_rng(0).normal(size=(4, 30, 2)).astype(dtype)
    model = AutoRegressive(2).fit(X)
    assert model.forecast(3).shape == (4, 3, 2) and model.forecast(3).dtype == dtype
    assert model.forecast_interval(3).shape == (4, 3, 2, 2)
    assert model.sample(5, length=6, seed=0).shape == (5, 6, 2)
    listed, tensor = AutoRegressive(2).fit(list(X)), AutoRegressive(2).fit(torch.tensor(X))
    assert isinstance(listed.forecast(3), list) and isinstance(tensor.forecast(3), torch.Tensor)
    np.testing.assert_array_equal(np.stack(listed.forecast(3)), model.forecast(3))
    np.testing.assert_array_equal(tensor.forecast(3).numpy(), model.forecast(3))
    assert model.log_prob(X).dtype == dtype and model.innovations(X).shape == (4, 28, 2)


def test_flat_series_stay_flat():
    X = np.random.default_rng(0).normal(size=(4, 30))
    model = AutoRegressive(1).fit(X)
    assert model.forecast(3).shape == (4, 3) and model.forecast_interval(3).shape == (4, 3, 2)
    assert model.sample(2).shape == (2, 30)


def test_saved_and_loaded_models_agree(tmp_path):
    y = [ar1(50), ar1(40, seed=3)]
    y[1][-1] = np.nan
    model = AutoRegressive("aic", random_state=0).fit(y)
    loaded = benthic.load(model.save(tmp_path / "series.safetensors"))
    assert loaded.summary() == model.summary()
    for ours, theirs in zip(model.forecast_interval(5), loaded.forecast_interval(5), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(model.sample(2, length=5)[1], loaded.sample(2, length=5)[1])
    assert len(model.plot().axes) == 1


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = AutoRegressive(1).fit([ar1(50)])
    before = model.forecast(2)[0]
    with pytest.raises(InvalidInput, match="infinity"):
        model.fit([[1.0, np.inf, 2.0]])
    np.testing.assert_array_equal(model.forecast(2)[0], before)


@pytest.mark.parametrize(
    ("model", "X", "words"),
    [
        (AutoRegressive("bicc"), [[1.0, 2.0]], "did you mean 'bic'"),
        (AutoRegressive(-1), [[1.0, 2.0]], "at least 0"),
        (AutoRegressive(trend="constant"), [[1.0, 2.0]], "trend 'constant' is unknown"),
        (AutoRegressive(trend="ct", method="burg"), [[1.0, 2.0]], "goes with method 'least-squares'"),
        (AutoRegressive(method="burg"), np.ones((2, 9, 2)), "one number a step and X has 2"),
        (AutoRegressive(method="exact"), [[1.0, np.nan, 2.0]], "NaN; method 'exact' takes no gaps"),
        (AutoRegressive(5), [[1.0, 2.0, 3.0]], "order 5 needs a series with 6 steps"),
        (AutoRegressive("aic", max_order=9), [[1.0, 2.0, 3.0]], "lower max_order"),
        (AutoRegressive(), [[1.0], []], "sequence 1|length 0"),
        (AutoRegressive(), np.ones(5), "list of one"),
    ],
)
def test_bad_input(model, X, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        model.fit(X)
    assert str(caught.value).startswith("AutoRegressive.fit: ")


def test_bad_requests():
    model = AutoRegressive(1).fit([ar1(50)])
    with pytest.raises(InvalidInput, match="AutoRegressive.forecast: h is 0"):
        model.forecast(0)
    with pytest.raises(InvalidInput, match="forecast_interval: level is 1.5"):
        model.forecast_interval(2, level=1.5)
    with pytest.raises(InvalidInput, match="given has 2 series for 3 draws"):
        model.sample(3, given=[ar1(9), ar1(9)])
    with pytest.raises(InvalidInput, match="length 5 is below that of given, 9 steps"):
        model.sample(1, length=5, given=[ar1(9)])
    with pytest.raises(InvalidInput, match="expecting 1"):
        model.forecast(1, given=np.ones((1, 5, 2)))
    with pytest.raises(Exception, match="not fitted yet"):
        AutoRegressive().forecast(1)
