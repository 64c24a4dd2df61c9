"""EM never lowers the likelihood, and where the maximum is known in closed form it is what EM finds."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.mixture

import benthic
from tests.mixture.problems import KINDS, clusters, holed, log_prob, start


def fit(X, kind, k=3, steps=40, sample_weight=None, **params):
    """EM without penalty or early stop."""
    settings = {"reg_covar": 0.0, "tol": 0.0, "max_iter": steps, **start(X, k, kind), **params}
    model = benthic.GaussianMixture(k, covariance_type=kind, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge is the plan
        return model.fit(X, sample_weight=sample_weight)


def likelihoods(model):
    return np.array([step["log_likelihood"] for step in model.history_])


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_em_never_lowers_the_likelihood(kind, gaps, weighted):
    X = holed(clusters(240, 4), gaps)
    weight = np.random.default_rng(2).uniform(0, 3, len(X)) if weighted else None
    climb = likelihoods(fit(X, kind, sample_weight=weight))
    assert len(climb) == 40 and climb[-1] > climb[0] + 0.1
    assert np.diff(climb).min() > -1e-11 * abs(climb[-1])


def mixed(n=200):
    """Columns of numbers and of categories that go with their clusters, with gaps in both."""
    rng = np.random.default_rng(0)
    kind = rng.choice(3, n)
    frame = pd.DataFrame(np.round(rng.normal(size=(n, 2)) * [2, 300] + np.outer(kind, [9, 700]), 1), columns=["a", "b"])
    frame["kind"] = pd.Categorical(np.array(["x", "y", "z"])[kind])
    side = np.array(["left", "right"], dtype=object)[rng.choice(2, n)]
    side[rng.choice(n, n // 20, replace=False)] = None
    frame["side"] = pd.Categorical(side)
    frame.loc[rng.choice(n, n // 20, replace=False), ["a", "b"]] = np.nan
    return frame


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reg_covar", [1e-6, 1e-3])
def test_em_never_lowers_the_likelihood_of_a_table(kind, reg_covar):
    """Categories have no variance within a cluster: there the least variance decides, which bounds and adds nothing."""
    for k in (2, 3, 4):
        model = benthic.GaussianMixture(k, covariance_type=kind, reg_covar=reg_covar, tol=0.0, max_iter=30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            climb = likelihoods(model.set_params(random_state=0).fit(mixed()))
        assert np.diff(climb).min() > -1e-8 * abs(climb[-1])


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_the_most_likely_of_those_that_are_wide_enough(kind):
    """Scikit-learn's, to whose variances ``reg_covar`` is added, are wide enough too, and never more likely."""
    X = clusters(100) @ np.diag([1.0, 1.0, 1e-4])
    ours = fit(X, kind, k=1, steps=1, reg_covar=0.01)
    theirs = sklearn.mixture.GaussianMixture(1, covariance_type=kind, reg_covar=0.01).fit(X)
    assert ours.score(X) > theirs.score(X)
    if kind == "full":
        values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
        expected = vectors * np.maximum(values, 0.01) @ vectors.T
        np.testing.assert_allclose(ours.covariances_[0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_that_climbs_is_the_true_one(kind, gaps):
    X = holed(clusters(60), gaps)
    before, after = fit(X, kind, steps=5), fit(X, kind, steps=6)
    assert likelihoods(after)[-1] == pytest.approx(log_prob(before, X).mean(), rel=1e-12)
    assert after.lower_bound_ == likelihoods(after)[-1]


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_one_component_is_the_sample_mean_and_covariance_after_one_step(kind):
    X = clusters(100)
    model = fit(X, kind, k=1, steps=1)
    np.testing.assert_allclose(model.means_[0], X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(model.covariances_.reshape(3, 3), np.cov(X.T, bias=True), rtol=1e-11)


@pytest.mark.spec("H-02")
def test_monotone_gaps_give_the_closed_form_maximum():
    """With the second column missing for some rows, the maximum factors into a mean and a regression.

    Anderson, 1957: the first column's moments come from all rows, the regression from the complete ones.
    """
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([1.0, -2.0], [[2.0, 1.2], [1.2, 1.5]], size=200)
    X[rng.random(200) < 1 / (1 + np.exp(-X[:, 0])), 1] = np.nan  # depends on what is observed only
    whole = X[~np.isnan(X[:, 1])]
    slope, intercept = np.polyfit(whole[:, 0], whole[:, 1], 1)
    noise = np.mean((whole[:, 1] - intercept - slope * whole[:, 0]) ** 2)
    m, v = X[:, 0].mean(), X[:, 0].var()
    model = fit(X, "full", k=1, steps=300)
    np.testing.assert_allclose(model.means_[0], [m, intercept + slope * m], rtol=1e-9)
    expected = [[v, slope * v], [slope * v, noise + slope**2 * v]]
    np.testing.assert_allclose(model.covariances_[0], expected, rtol=1e-9)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_everywhere_end_where_no_direction_climbs(kind):
    """At EM's fixed point the observed-data likelihood, computed by SciPy, has no slope in the means."""
    X = holed(clusters(80, d=3, k=2, apart=4.0))
    model = fit(X, kind, k=2, steps=400)
    best = log_prob(model, X).sum()
    for k, j in ((0, 0), (1, 2)):
        step = 1e-4 * np.nanstd(X[:, j])
        values = []
        for sign in (1, -1):
            model.means_[k, j] += sign * step
            values.append(log_prob(model, X).sum())
            model.means_[k, j] -= sign * step
        curvature = (2 * best - sum(values)) / step**2
        slope = (values[0] - values[1]) / (2 * step)
        assert curvature > 0
        assert abs(slope / curvature) < 1e-4 * np.nanstd(X[:, j])  # the maximum is this near


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_single_value_add_no_likelihood(kind):
    X = holed(clusters(60))
    plain, padded = fit(X, kind), fit(np.vstack([X, np.full((20, 3), np.nan)]), kind, steps=40)
    assert likelihoods(plain)[0] * 60 == pytest.approx(likelihoods(padded)[0] * 80, rel=1e-12)
    assert np.diff(likelihoods(padded)).min() > -1e-11
