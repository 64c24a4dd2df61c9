"""Least squares and ridge against scikit-learn, LAPACK and textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import sklearn.linear_model as peer
import torch
from scipy import stats

import benthic
from benthic.base.errors import InvalidInput
from benthic.linear.least_squares import solve_gram, solve_rows
from benthic.linear.moments import Moments
from tests.linear.problems import DIABETES, houses

pytestmark = pytest.mark.spec("F-01")
RNG = np.random.default_rng(0)
SETS = {"diabetes": DIABETES, "houses": houses()}


def close(ours, theirs, rtol=1e-10):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=rtol * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 3])
def test_plain_and_ridge_agree_with_scikit_learn(name, fit_intercept, weighted, targets):
    X, y = SETS[name]
    y = y if targets == 1 else np.column_stack([y, y**2, X[:, 0] + RNG.normal(size=len(y))])
    weight = RNG.uniform(0, 3, len(X)) if weighted else None
    settings = {"fit_intercept": fit_intercept}
    ours = benthic.LinearRegression(**settings).fit(X, y, sample_weight=weight)
    close(ours, peer.LinearRegression(**settings).fit(X, y, sample_weight=weight))
    for alpha in (0.5, 1e3):
        ours = benthic.Ridge(alpha, **settings).fit(X, y, sample_weight=weight)
        close(ours, peer.Ridge(alpha, solver="svd", **settings).fit(X, y, sample_weight=weight))


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
def test_of_several_minima_the_shortest(shape):
    X = RNG.normal(size=shape)
    X[:, 5] = X[:, 3] + X[:, 4]
    X[:, 6] = 2.0
    y = RNG.normal(size=shape[0])
    ours = benthic.LinearRegression().fit(X, y)
    theirs = peer.LinearRegression().fit(X, y)
    close(ours, theirs, 1e-9)
    assert ours.rank_ == theirs.rank_
    kept = theirs.singular_ > 1e-9
    np.testing.assert_allclose(ours.singular_[kept], theirs.singular_[kept], rtol=1e-10)


def test_ridge_of_more_columns_than_rows_and_one_alpha_a_target():
    X, Y = RNG.normal(size=(20, 60)), RNG.normal(size=(20, 2))
    close(benthic.Ridge([0.1, 10.0]).fit(X, Y), peer.Ridge([0.1, 10.0], solver="svd").fit(X, Y))
    with pytest.raises(InvalidInput, match="alpha has 3 numbers for 2 targets"):
        benthic.Ridge([1.0, 2.0, 3.0]).fit(X, Y)


def test_without_a_penalty_ridge_is_least_squares():
    X, y = DIABETES
    np.testing.assert_allclose(benthic.Ridge(0.0).fit(X, y).coef_, benthic.LinearRegression().fit(X, y).coef_)


@pytest.mark.parametrize("model", [benthic.LinearRegression(positive=True), benthic.Ridge(0.7, positive=True)])
def test_coefficients_that_may_not_be_negative(model):
    X, y = DIABETES
    theirs = type(model).__name__
    settings = {"alpha": 0.7, "solver": "lbfgs", "tol": 1e-12} if theirs == "Ridge" else {}
    expected = getattr(peer, theirs)(positive=True, **settings).fit(X, y)
    ours = model.fit(X, y)
    assert (ours.coef_ >= 0).all() and (ours.coef_ == 0).any()
    np.testing.assert_allclose(ours.coef_, expected.coef_, rtol=1e-5, atol=1e-3 * np.abs(ours.coef_).max())


def test_hard_columns_keep_their_digits():
    # powers up to the tenth of numbers near one: condition number 1e13; NumPy's QR in long double is the judge
    t = np.linspace(0.9, 1.1, 200)
    X = np.column_stack([t**k for k in range(1, 6)])
    exact = np.array([1.0, -2.0, 3.0, -1.0, 0.5])
    y = X @ exact + 4.0
    ours = benthic.LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.predict(X), y, rtol=1e-11)
    theirs = scipy.linalg.lstsq(X - X.mean(0), y - y.mean())[0]
    assert np.abs(ours.coef_ - exact).max() <= 10 * np.abs(theirs - exact).max() + 1e-8


def test_integer_weights_repeat_rows():
    X, y = DIABETES
    weight = RNG.integers(0, 4, len(y))
    for model in (benthic.LinearRegression(), benthic.Ridge(2.0)):
        weighted = model.fit(X, y, sample_weight=weight)
        found = (weighted.coef_, weighted.intercept_, weighted.r2_, weighted.dof_)
        repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        for ours, theirs in zip(found, (repeated.coef_, repeated.intercept_, repeated.r2_, repeated.dof_), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


# -- sums ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [benthic.LinearRegression, lambda **s: benthic.Ridge(3.0, **s)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_file_gives_what_memory_gives(tmp_path, model, fit_intercept):
    X, y = houses()
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=X.shape[1])
    streamed = model(fit_intercept=fit_intercept, trainer={"batch_size": 170}).fit(source)
    whole = model(fit_intercept=fit_intercept).fit(X, y)
    close(streamed, whole, 1e-9)
    np.testing.assert_allclose(streamed.r2_, whole.r2_, rtol=1e-9)
    np.testing.assert_allclose(streamed.predict(X), whole.predict(X), rtol=1e-9)


def test_passes_of_correction_recover_what_sums_lose(tmp_path):
    t = np.linspace(0.5, 1.5, 400)
    X = np.column_stack([t**k for k in range(1, 7)])
    y = X @ np.array([1.0, -2.0, 3.0, -1.0, 0.5, 2.0])
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=6)
    by_sums = benthic.LinearRegression().partial_fit(X, y)
    corrected = benthic.LinearRegression().fit(source)
    error = [np.abs(m.coef_ - [1.0, -2.0, 3.0, -1.0, 0.5, 2.0]).max() for m in (by_sums, corrected)]
    assert error[1] < 1e-6 and error[1] < error[0] / 100


@pytest.mark.parametrize("model", [benthic.LinearRegression, benthic.Ridge, benthic.Lasso, benthic.ElasticNet])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_parts_add_up_to_the_whole(model, fit_intercept):
    X, y = houses(300)
    Y, weight = np.column_stack([y, -y]), RNG.integers(1, 4, len(y))
    settings = {"tol": 1e-11, "max_iter": 100_000} if hasattr(model(), "tol") else {}
    settings["fit_intercept"] = fit_intercept
    model = model(**settings)
    for rows in np.array_split(np.arange(len(X)), 5):
        model.partial_fit(X[rows], Y[rows], sample_weight=weight[rows])
    whole = type(model)(**settings).fit(X, Y, sample_weight=weight)
    close(model, whole, 1e-7)
    half = type(model)(**settings).fit(X[:100], Y[:100], sample_weight=weight[:100])
    close(half.partial_fit(X[100:], Y[100:], sample_weight=weight[100:]), whole, 1e-7)


def test_moments_of_parts_merge():
    rows, weight = torch.randn(90, 4, dtype=torch.float64) + 1e4, torch.rand(90, dtype=torch.float64)
    merged = Moments.of(rows[:20], weight[:20]).merge(Moments.of(rows[20:], weight[20:]))
    whole = Moments.of(rows, weight)
    torch.testing.assert_close(merged.scatter, whole.scatter, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-14, atol=0)
    tree = Moments.from_tree(whole.to_tree())
    assert torch.equal(tree.scatter, whole.scatter) and tree.weight == whole.weight


def test_sums_of_dependent_columns_give_the_shortest_solution_too():
    A = torch.randn(50, 6, dtype=torch.float64)
    A[:, 4] = 100 * A[:, 0] - A[:, 1]
    A[:, 5] = 0.0
    Y = torch.randn(50, 2, dtype=torch.float64)
    by_rows = solve_rows(A, Y, torch.zeros(2, dtype=torch.float64), 2e-16)
    by_sums, _ = solve_gram(A.T @ A, A.T @ Y, torch.zeros(2, dtype=torch.float64))
    assert by_rows.rank == by_sums.rank == 4
    torch.testing.assert_close(by_sums.coef, by_rows.coef, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(by_rows.coef, torch.linalg.pinv(A) @ Y, rtol=1e-8, atol=1e-10)


# -- errors and intervals ------------------------------------------------------------------------------------


def test_standard_errors_are_the_textbook_ones():
    X, y = DIABETES
    model = benthic.LinearRegression().fit(X, y)
    A = np.column_stack([X, np.ones(len(X))])
    covariance = np.linalg.inv(A.T @ A)
    residual = y - A @ (covariance @ A.T @ y)
    sigma = np.sqrt(residual @ residual / (len(y) - 11))
    np.testing.assert_allclose(model.sigma_, sigma, rtol=1e-10)
    np.testing.assert_allclose(model.stderr_, sigma * np.sqrt(np.diag(covariance)[:-1]), rtol=1e-8)
    np.testing.assert_allclose(model.r2_, model.score(X, y), rtol=1e-12)
    one = stats.linregress(X[:, 2], y)
    np.testing.assert_allclose(benthic.LinearRegression().fit(X[:, 2:3], y).stderr_, [one.stderr], rtol=1e-10)
    new = np.column_stack([X[:5] * 2, np.ones(5)])
    half = stats.t.ppf(0.95, len(y) - 11) * sigma * np.sqrt(1 + np.einsum("ij,jk,ik->i", new, covariance, new))
    low, high = model.predict_interval(X[:5] * 2, 0.9).T
    np.testing.assert_allclose(high - low, 2 * half, rtol=1e-9)


def test_intervals_cover_as_often_as_they_say():
    rng, hits = np.random.default_rng(3), []
    for _ in range(400):
        X, new = rng.normal(size=(12, 3)), rng.normal(size=(10, 3))
        w = rng.normal(size=3)
        model = benthic.LinearRegression().fit(X, X @ w + rng.normal(size=12))
        low, high = model.predict_interval(new, 0.8).T
        truth = new @ w + rng.normal(size=10)
        hits.append(((low < truth) & (truth < high)).mean())
    # rows of one fit share its error, so the standard error is that over fits
    assert abs(np.mean(hits) - 0.8) < 4 * np.std(hits) / np.sqrt(len(hits))


def test_intervals_of_several_targets_and_where_there_are_none():
    X, y = DIABETES
    model = benthic.LinearRegression().fit(X, np.column_stack([y, 2 * y]))
    ends = model.predict_interval(X[:4])
    assert ends.shape == (4, 2, 2)
    np.testing.assert_allclose(ends[:, 1], 2 * ends[:, 0], rtol=1e-9)
    with pytest.raises(InvalidInput, match="level is 1.5"):
        model.predict_interval(X, 1.5)
    with pytest.raises(InvalidInput, match="no more rows than parameters"):
        benthic.LinearRegression().fit(X[:8], y[:8]).predict_interval(X)
    with pytest.raises(InvalidInput, match="positive=True"):
        benthic.LinearRegression(positive=True).fit(X, y).predict_interval(X)


# -- in and out ----------------------------------------------------------------------------------------------


def test_types_and_words():
    X, y = DIABETES
    narrow = benthic.LinearRegression().fit(X.astype(np.float32), y.astype(np.float32))
    assert narrow.coef_.dtype == np.float32 and narrow.predict(X.astype(np.float32)).dtype == np.float32
    tensors = benthic.Ridge().fit(torch.tensor(X), torch.tensor(y))
    assert isinstance(tensors.coef_, torch.Tensor) and isinstance(tensors.predict(torch.tensor(X)), torch.Tensor)
    text = benthic.LinearRegression().fit(X, y).summary()
    assert "R2" in text and "±" in text and "431 degrees of freedom" in text


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (benthic.LinearRegression(fit_intercept="yes"), "fit_intercept is 'yes'"),
        (benthic.Ridge(-1.0), "alpha is -1.0"),
        (benthic.Ridge("much"), "alpha is 'much'"),
        (benthic.Lasso(-1.0), "alpha is -1.0"),
        (benthic.Lasso(tol=0), "tol is 0"),
        (benthic.Lasso(max_iter=0), "max_iter is 0"),
        (benthic.Lasso(precompute="yes"), "precompute is 'yes'"),
        (benthic.ElasticNet(l1_ratio=2.0), "l1_ratio is 2.0"),
    ],
)
def test_settings_that_make_no_sense(model, words):
    with pytest.raises(InvalidInput, match=f"{type(model).__name__}.fit: {words}"):
        model.fit(*DIABETES)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-100, 1e150])
def test_rows_of_any_size_are_the_same_problem(scale):
    X, y = DIABETES
    model, plain = benthic.LinearRegression().fit(X * scale, y), benthic.LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_ * scale, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(model.predict(X * scale), plain.predict(X), rtol=1e-9)


def test_coefficients_that_overflow_are_refused():
    X, y = DIABETES
    with pytest.raises(InvalidInput, match="LinearRegression.fit: X is so small beside y that coefficients overflow"):
        benthic.LinearRegression().fit(X * 1e-319, y)


def test_what_partial_fit_refuses():
    X, y = DIABETES
    with pytest.raises(InvalidInput, match="positive=True needs all rows"):
        benthic.LinearRegression(positive=True).partial_fit(X, y)
    fresh = benthic.LinearRegression()
    with pytest.raises(InvalidInput, match="requires y to be passed"):
        fresh.partial_fit(X)
    assert not hasattr(fresh, "n_features_in_")
    wide = benthic.LinearRegression().fit(X[:5], y[:5])
    with pytest.raises(InvalidInput, match="fewer rows than columns"):
        wide.partial_fit(X, y)
    model = benthic.LinearRegression().partial_fit(X, y)
    with pytest.raises(InvalidInput, match="y has 2 targets"):
        model.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(X[:, :3], y)
