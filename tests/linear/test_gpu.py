"""Regressions on CUDA give what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import benthic
from benthic.linear import lasso_path
from tests.linear.problems import houses, sparse_problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("name", ["LinearRegression", "Ridge", "Lasso", "ElasticNet"])
@pytest.mark.parametrize("data", [houses(), sparse_problem(40, 90)], ids=["tall", "wide"])
def test_the_answers_of_the_cpu(name, data):
    X, y = data
    settings = {"tol": 1e-12, "alpha": 0.1, "max_iter": 50_000} if name in ("Lasso", "ElasticNet") else {}
    here = getattr(benthic, name)(**settings).fit(torch.tensor(X), torch.tensor(y))
    there = getattr(benthic, name)(**settings).fit(torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda"))
    assert there.coef_.device.type == "cuda"
    np.testing.assert_allclose(there.coef_.cpu(), here.coef_, rtol=1e-6, atol=1e-8 * float(here.coef_.abs().max()))
    rows = torch.tensor(X[:5], device="cuda", dtype=torch.float32)
    assert there.predict(rows).device.type == "cuda" and there.predict(rows).dtype == torch.float32
    if name == "LinearRegression" and len(X) > X.shape[1]:
        np.testing.assert_allclose(there.predict_interval(X[:5]), here.predict_interval(X[:5]), rtol=1e-7)


def test_streams_and_paths():
    X, y = houses()
    model = benthic.LinearRegression(trainer={"device": "cuda"}).partial_fit(X[:900], y[:900])
    whole = benthic.LinearRegression(trainer={"device": "cpu"}).fit(X, y)
    np.testing.assert_allclose(model.partial_fit(X[900:], y[900:]).coef_, whole.coef_, rtol=1e-6)
    path = lasso_path(torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda"), n_alphas=5)
    assert path.coefs.device.type == "cuda" and path.coefs.shape == (7, 5)


def test_products_and_mistakes():
    X, y = sparse_problem(60, 5, k=3)
    rows = torch.tensor(X, device="cuda")
    products = benthic.PolynomialFeatures(2).fit(rows).transform(rows)
    np.testing.assert_allclose(products.cpu(), benthic.PolynomialFeatures(2).fit_transform(X), rtol=1e-12)
    model = benthic.Perceptron(random_state=0).fit(rows, torch.tensor(y > y.mean(), device="cuda"))
    assert model.coef_.device.type == "cuda" and model.predict(rows).device.type == "cuda"
