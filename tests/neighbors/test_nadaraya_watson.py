"""Nadaraya-Watson against its formula written out, its leave-one-out error against leaving out, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import benthic
from benthic.base.errors import InvalidInput
from benthic.kernels import RBF, Linear, Matern
from benthic.neighbors import SHAPES
from benthic.neighbors.shapes import log_weights
from benthic.neighbors.smoothing import best_scale, held, loo_error

FORMULAS = {
    "gaussian": lambda u: np.exp(-0.5 * u**2),
    "exponential": lambda u: np.exp(-u),
    "epanechnikov": lambda u: np.where(u < 1, 0.75 * (1 - u**2), 0),
    "biweight": lambda u: np.where(u < 1, 15 / 16 * (1 - u**2) ** 2, 0),
    "triweight": lambda u: np.where(u < 1, 35 / 32 * (1 - u**2) ** 3, 0),
    "tricube": lambda u: np.where(u < 1, 70 / 81 * (1 - np.minimum(u, 1) ** 3) ** 3, 0),
    "triangular": lambda u: np.where(u < 1, 1 - u, 0),
    "cosine": lambda u: np.where(u < 1, np.pi / 4 * np.cos(np.pi / 2 * u), 0),
    "box": lambda u: np.where(u <= 1, 0.5, 0),
}


def waves(n, d=1, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(3 * X[:, 0]) + noise * rng.normal(size=n)


def direct(X, y, queries, h, formula, weight=None):
    """The formula, one query at a time."""
    weight = np.ones(len(X)) if weight is None else weight
    out = []
    for q in queries:
        k = weight * formula(np.linalg.norm((q - X) / h, axis=1))
        out.append(k @ y / k.sum())
    return np.array(out)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", SHAPES)
def test_predictions_are_the_formula(name):
    X, y = waves(80, 2)
    queries = X[:20] + 0.05
    both = np.stack([y, X[:, 1]], 1)
    for h in (0.9, np.array([0.7, 1.5])):
        model = benthic.NadarayaWatson(name, bandwidth=h).fit(X, both)
        np.testing.assert_allclose(model.predict(queries), direct(X, both, queries, h, FORMULAS[name]), rtol=1e-12)


def test_kernel_objects_are_weights_too():
    X, y = waves(60, 2)
    ours = benthic.NadarayaWatson(RBF(1.0), bandwidth=0.5).fit(X, y).predict(X)
    np.testing.assert_allclose(ours, benthic.NadarayaWatson(bandwidth=0.5).fit(X, y).predict(X), rtol=1e-10)
    matern = benthic.NadarayaWatson(Matern(1.5)).fit(X, y)
    assert matern.score(X, y) > 0.5
    with pytest.raises(InvalidInput, match="negative weights"):
        benthic.NadarayaWatson(Linear(), bandwidth=1.0).fit(X, y).predict(X)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "box"])
def test_the_error_is_that_of_leaving_each_row_out(name):
    X, y = waves(40)
    h = 0.4
    errors = []
    for i in range(40):
        rest = np.arange(40) != i
        errors.append(y[i] - benthic.NadarayaWatson(name, bandwidth=h).fit(X[rest], y[rest]).predict(X[i : i + 1])[0])
    data = held(torch.tensor(X), torch.tensor(y)[:, None], torch.ones(40, dtype=torch.float64), 1000)
    found = loo_error(name, data, torch.tensor([h], dtype=torch.float64))
    assert float(found) == pytest.approx(np.square(errors).mean() / y.var(), rel=1e-10)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", ["gaussian", "tricube"])
def test_the_learned_bandwidth_is_the_best_of_many(name):
    X, y = waves(150, noise=0.3)
    model = benthic.NadarayaWatson(name).fit(X, y)
    data = held(torch.tensor(X), torch.tensor(y)[:, None], torch.ones(150, dtype=torch.float64), 1000)
    tried = [float(loo_error(name, data, torch.tensor([h]).double())) for h in np.geomspace(0.01, 10, 200)]
    assert model.loo_error_ / y.var() <= min(tried) * (1 + 1e-3)
    assert model.score(*waves(500, noise=0.0, seed=1)) > 0.93


def test_one_bandwidth_for_each_column_finds_the_idle_ones():
    X, y = waves(300, 3, noise=0.05)
    common, each = (benthic.NadarayaWatson(bandwidth=how).fit(X, y) for how in ("loo", "loo-each"))
    assert each.loo_error_ < 0.7 * common.loo_error_
    assert each.bandwidth_[0] < 0.5 * each.bandwidth_[1:].min()


def test_gradients_of_the_error():
    X, y = waves(25, 2)
    data = held(torch.tensor(X), torch.tensor(y)[:, None], torch.ones(25, dtype=torch.float64), 1000)
    scale = torch.tensor([0.6, 0.9], dtype=torch.float64, requires_grad=True)
    for name in ("gaussian", "exponential", "biweight"):
        assert torch.autograd.gradcheck(lambda s, name=name: loo_error(name, data, s), (scale,))


def test_wide_and_narrow_limits():
    X, y = waves(50)
    np.testing.assert_allclose(benthic.NadarayaWatson(bandwidth=1e6).fit(X, y).predict(X), y.mean(), rtol=1e-8)
    np.testing.assert_allclose(benthic.NadarayaWatson(bandwidth=1e-6).fit(X, y).predict(X), y, rtol=1e-10)


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", SHAPES)
def test_far_queries_get_the_nearest_example(name):
    model = benthic.NadarayaWatson(name, bandwidth=0.02).fit([[0.0], [1.0], [-1.0]], [1.0, 5.0, 7.0])
    np.testing.assert_allclose(model.predict([[1e4], [-1e4]]), [5.0, 7.0])
    if name in ("box", "tricube"):  # two at the same distance share
        assert model.predict([[0.5]])[0] == pytest.approx(3.0)
    assert np.isfinite(model.predict_interval([[1e4]])).all()


@pytest.mark.parametrize("settings", [{}, {"max_loo_rows": 30}, {"kernel": "epanechnikov"}, {"bandwidth": 0.3}])
def test_weights_count_rows(settings):
    X, y = waves(60, 2)
    weight = np.random.default_rng(1).integers(0, 4, 60)
    again = np.repeat(np.arange(60), weight)
    a = benthic.NadarayaWatson(**settings).fit(X, y, sample_weight=weight)
    b = benthic.NadarayaWatson(**settings).fit(X[again], y[again])
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-7)
    np.testing.assert_allclose(a.predict_interval(X), b.predict_interval(X), rtol=1e-7)


def test_intervals_hold_what_they_promise():
    X, y = waves(800, noise=0.3)
    model = benthic.NadarayaWatson().fit(X, y)
    other, truth = waves(2000, noise=0.3, seed=5)
    for level in (0.5, 0.9):
        low, high = model.predict_interval(other, level).T
        # bias widens the local spread a little; the rest is 2000 draws
        assert level - 0.03 < ((low < truth) & (truth < high)).mean() < level + 0.05
    both = benthic.NadarayaWatson().fit(X, np.stack([y, y], 1)).predict_interval(other[:7])
    assert both.shape == (7, 2, 2)


def test_it_beats_a_line_on_a_curve():
    X, y = waves(400, noise=0.2)
    other, truth = waves(400, noise=0.2, seed=2)
    assert benthic.NadarayaWatson().fit(X, y).score(other, truth) > LinearRegression().fit(X, y).score(other, truth)


def test_float32_and_constant_targets():
    X, _y = waves(100)
    model = benthic.NadarayaWatson().fit(X.astype(np.float32), np.full(100, 3.0))
    out = model.predict(X.astype(np.float32))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, 3.0)


def test_scales_do_not_matter():
    X, y = waves(100, 2)
    a = benthic.NadarayaWatson().fit(X, y).predict(X)
    b = benthic.NadarayaWatson().fit(X * [1e6, 1e-6] + 5, y).predict(X * [1e6, 1e-6] + 5)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_shapes_fall_with_distance():
    u = torch.linspace(0, 1.5, 200, dtype=torch.float64)[:, None]
    for name in SHAPES:
        value = log_weights(name, u, torch.zeros(1, 1, dtype=torch.float64))[0].exp()[:, 0]
        assert bool((value.diff() <= 1e-12).all()) and value[0] == 1


def test_the_common_scale_follows_the_columns():
    X, y = waves(80, 2)
    data = held(torch.tensor(X * [1.0, 100.0]), torch.tensor(y)[:, None], torch.ones(80, dtype=torch.float64), 1000)
    scale = best_scale("gaussian", data)
    assert float(scale[1] / scale[0]) == pytest.approx(100 * X[:, 1].std() / X[:, 0].std(), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bandwidth": -1.0}, "bandwidth is -1.0; it must be positive"),
        ({"bandwidth": 0.0}, "must be positive"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, r"bandwidth has shape \(3,\)"),
        ({"bandwidth": "lool"}, "did you mean 'loo'"),
        ({"bandwidth": None}, "bandwidth is None"),
        ({"kernel": "gausian"}, "did you mean 'gaussian'"),
        ({"kernel": 3}, "kernel is 3"),
        ({"max_loo_rows": 1}, "max_loo_rows is 1"),
    ],
)
def test_wrong_settings(settings, words):
    X, y = waves(20, 2)
    with pytest.raises(InvalidInput, match=words) as caught:
        benthic.NadarayaWatson(**settings).fit(X, y)
    assert str(caught.value).startswith("NadarayaWatson.fit: ")
    with pytest.raises(InvalidInput, match="fit: .*squared distances overflow; take a larger bandwidth"):
        benthic.NadarayaWatson(bandwidth=1e-320).fit(*waves(20))
    with pytest.raises(InvalidInput, match="predict: .*squared distances overflow; take a larger bandwidth"):
        benthic.NadarayaWatson(bandwidth=1e-100).fit(*waves(20)).predict([[1e60]])
    with pytest.raises(InvalidInput, match="level is 1.5"):
        benthic.NadarayaWatson().fit(X, y).predict_interval(X, 1.5)
