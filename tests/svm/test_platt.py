"""Probabilities: the sigmoid against a general optimizer, the coupling against its definition, and calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from benthic.svm import SVC
from benthic.svm.platt import couple, fit_sigmoid, held_out
from tests.svm.problems import standard

pytestmark = pytest.mark.spec("F-05")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_sigmoid_is_the_optimum(scale):
    rng = np.random.default_rng(0)
    values = rng.normal(size=300)
    positive = rng.random(300) < 1 / (1 + np.exp(-2 * values - 0.5))
    target = np.where(positive, (positive.sum() + 1) / (positive.sum() + 2), 1 / ((~positive).sum() + 2))

    def loss(theta):
        score = theta[0] * values + theta[1]
        return np.sum(target * score + np.logaddexp(0, -score))

    best = minimize(loss, [0.0, 0.0], tol=1e-12)
    A, B = fit_sigmoid(values * scale, positive)
    np.testing.assert_allclose([A * scale, B], best.x, atol=1e-5)


def test_separated_values_stay_finite():
    A, B = fit_sigmoid(np.array([-3.0, -2.0, 2.0, 3.0]) * 1e6, np.array([False, False, True, True]))
    assert np.isfinite([A, B]).all() and A < 0


def test_coupling_returns_consistent_pairs_and_minimizes_its_objective():
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    first, second = torch.triu_indices(4, 4, 1)
    pairs = p[:, first] / (p[:, first] + p[:, second])
    torch.testing.assert_close(couple(pairs, 4), p, rtol=1e-9, atol=1e-12)
    noisy = torch.rand(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    found = couple(noisy, 4).numpy()
    for r, q in zip(noisy.numpy(), found, strict=True):
        R = np.zeros((4, 4))
        R[np.triu_indices(4, 1)] = r
        R += np.tril(1 - R.T, -1)

        def objective(x, R=R):
            return sum((R[j, i] * x[i] - R[i, j] * x[j]) ** 2 for i in range(4) for j in range(4) if i != j)

        simplex = {"type": "eq", "fun": lambda x: x.sum() - 1}
        best = minimize(objective, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=simplex, tol=1e-14)
        assert objective(q) <= best.fun + 1e-9 and abs(q.sum() - 1) < 1e-12


def test_rows_are_judged_by_machines_that_did_not_see_them():
    seen = []
    positive = np.arange(23) % 3 == 0

    def values(train, test):
        assert not set(train) & set(test) and len(np.unique(positive[train])) == 2
        seen.extend(test)
        return test.astype(float)

    out = held_out(positive, 0, values)
    assert sorted(seen) == list(range(23)) and out.tolist() == list(range(23))
    alone = held_out(np.array([True, False, False, False, False, False]), 0, lambda a, b: np.zeros(len(b)))
    assert alone[0] == -1.0  # without it, there is only the other class


@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_probabilities_are_calibrated_reproducible_and_sum_to_one(name):
    X, y = standard(name)
    train, test = np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 2 == 1
    model = SVC(probability=True, random_state=0).fit(X[train], y[train])
    P = model.predict_proba(X[test])
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-12)
    log_loss = -np.log(P[np.arange(test.sum()), y[test]]).mean()
    assert log_loss < 0.15 and (P.argmax(1) == y[test]).mean() > 0.93
    again = SVC(probability=True, random_state=0).fit(X[train], y[train])
    np.testing.assert_array_equal(again.predict_proba(X[test]), P)
    np.testing.assert_allclose(model.predict_log_proba(X[test]), np.log(P))
    assert not hasattr(SVC(), "predict_proba")
