"""Densities, gradients, conditionals and draws of a fitted mixture against independent formulas."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scipy.special import softmax

import benthic
from tests.mixture.problems import KINDS, clusters, conditional, holed, log_joint, log_prob

X = clusters(400)
GAPS = holed(X[:60], 0.4)
GAPS[0] = np.nan  # nothing known
GAPS[1] = X[1]  # everything known


@cache
def fitted(kind):
    return benthic.GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=200).fit(X)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_log_prob_is_scipys(kind):
    np.testing.assert_allclose(fitted(kind).log_prob(X), log_prob(fitted(kind), X), rtol=1e-11)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_are_integrated_out(kind):
    model = fitted(kind)
    np.testing.assert_allclose(model.log_prob(GAPS), log_prob(model, GAPS), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.anomaly(GAPS), -model.log_prob(GAPS))
    expected = [softmax(log_joint(model, x)) for x in GAPS]
    np.testing.assert_allclose(model.predict_proba(GAPS), expected, rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(model.predict(GAPS), np.argmax(expected, 1))


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_the_density_integrates_to_one(kind):
    rows = clusters(200, d=2, k=2)
    model = benthic.GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows)
    reach = 8 * np.sqrt(model._mixture().matrices.diagonal(dim1=1, dim2=2).numpy())  # (k, d)
    low, high = (model.means_ - reach).min(0), (model.means_ + reach).max(0)
    axes = [np.linspace(a, b, 900) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    cell = np.prod([a[1] - a[0] for a in axes])
    # the trapezoid rule converges faster than any power for a smooth integrand that vanishes at the border
    assert np.exp(model.log_prob(grid)).sum() * cell == pytest.approx(1.0, abs=1e-7)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_density(kind):
    model, rows = fitted(kind), X[:40]
    found = model.grad_log_prob(rows)
    leaf = torch.tensor(rows, requires_grad=True)
    (by_autograd,) = torch.autograd.grad(model._log_prob(leaf).sum(), leaf)
    np.testing.assert_allclose(found, by_autograd, rtol=1e-9, atol=1e-10)
    for j in range(rows.shape[1]):
        h = 1e-4 * X[:, j].std()
        ahead, behind = rows.copy(), rows.copy()
        ahead[:, j] += h
        behind[:, j] -= h
        slope = (log_prob(model, ahead) - log_prob(model, behind)) / (2 * h)
        # the error of a central difference is of order h²: 1e-8 of the scale on which the density bends
        np.testing.assert_allclose(found[:, j], slope, rtol=1e-5, atol=1e-5 / X[:, j].std())


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_autograd_flows_through_rows_with_gaps(kind):
    model = fitted(kind)
    leaf = torch.tensor(GAPS, requires_grad=True)
    (gradient,) = torch.autograd.grad(model._log_prob(leaf).sum(), leaf)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient[torch.isnan(leaf)] == 0).all())


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_imputation_is_the_conditional_mean(kind):
    model = fitted(kind)
    full = model.impute(GAPS)
    gaps = np.isnan(GAPS)
    np.testing.assert_array_equal(full[~gaps], GAPS[~gaps])
    for x, filled in zip(GAPS[2:], full[2:], strict=True):
        np.testing.assert_allclose(filled[np.isnan(x)], conditional(model, x)[0], rtol=1e-9)
    np.testing.assert_allclose(full[0], model.weights_ @ model.means_, rtol=1e-12)


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_conditional_draws_have_the_conditional_moments(kind):
    model, n = fitted(kind), 20_000
    given = np.array([[X[5, 0], np.nan, np.nan]])
    mean, covariance = conditional(model, given[0])
    drawn = model.sample(n, given=given, seed=0)
    np.testing.assert_array_equal(drawn[:, 0], np.full(n, X[5, 0]))
    rest = drawn[:, 1:]
    error = np.sqrt(np.diag(covariance) / n)
    assert (np.abs(rest.mean(0) - mean) < 4.5 * error).all()
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    # the fourth moment of a mixture may exceed a Gaussian's, hence the wide margin
    assert (np.abs(np.cov(rest.T) - covariance) < 8 * scale / np.sqrt(n)).all()


@pytest.mark.spec("H-02")
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_moments_of_the_mixture(kind):
    model, n = fitted(kind), 40_000
    drawn = model.sample(n, seed=1)
    mean = model.weights_ @ model.means_
    second = model._mixture().matrices.numpy() + np.einsum("ki,kj->kij", model.means_, model.means_)
    covariance = np.einsum("k,kij->ij", model.weights_, second) - np.outer(mean, mean)
    deviations = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * deviations / np.sqrt(n)).all()
    error = np.abs(np.cov(drawn.T) - covariance)
    assert (error < 8 * np.outer(deviations, deviations) / np.sqrt(n)).all()
    # the entropy is what the density says of its own draws; a second batch agrees with the first
    again = model.log_prob(model.sample(n, seed=2))
    first = model.log_prob(drawn)
    assert abs(again.mean() - first.mean()) < 4.5 * np.sqrt(2 / n) * first.std()


@pytest.mark.spec("H-02")
def test_each_row_is_completed_from_its_own_knowledge():
    model = fitted("full")
    rows = GAPS[:6]
    drawn = np.stack([model.sample(6, given=rows, seed=s) for s in range(400)])  # (400, 6, 3)
    for i in range(2, 6):
        gap = np.isnan(rows[i])
        if gap.any():
            mean, covariance = conditional(model, rows[i])
            error = np.sqrt(np.diag(covariance) / 400)
            assert (np.abs(drawn[:, i][:, gap].mean(0) - mean) < 5 * error).all()
    np.testing.assert_array_equal(drawn[0, 1], rows[1])
