"""Naive Bayes on CUDA gives what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import benthic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
X, Y = load_iris(return_X_y=True)
ROWS = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, np.floor(2 * X))


@pytest.mark.parametrize("name", ["GaussianNB", "BernoulliNB", "MultinomialNB", "CategoricalNB"])
def test_the_answers_of_the_cpu(name):
    here = getattr(benthic, name)(trainer={"device": "cpu"}).fit(ROWS, Y)
    rows, labels = torch.tensor(ROWS, device="cuda"), torch.tensor(Y, device="cuda")
    there = getattr(benthic, name)().fit(rows, labels)
    assert there.predict(rows).device.type == there.predict_proba(rows).device.type == "cuda"
    np.testing.assert_allclose(there.predict_proba(rows).cpu(), here.predict_proba(ROWS), rtol=1e-8, atol=1e-12)
    parts = getattr(benthic, name)().partial_fit(rows[:70], labels[:70], classes=[0, 1, 2])
    parts.partial_fit(rows[70:], labels[70:])
    np.testing.assert_allclose(parts.predict_proba(ROWS), here.predict_proba(ROWS), rtol=1e-8, atol=1e-12)


def test_bins_and_draws():
    rows, labels = torch.tensor(X, device="cuda"), torch.tensor(Y, device="cuda")
    assert benthic.CategoricalNB(bins=5).fit(rows, labels).score(rows, labels) > 0.85
    assert benthic.GaussianNB().fit(rows, labels).sample(5, given=rows[:1] * float("nan")).device.type == "cuda"
