"""Trust in maps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import manifold

import benthic
from benthic.metrics import trustworthiness
from benthic.metrics.judging import judge, judgeable


@pytest.mark.parametrize("k", [1, 5, 20])
def test_trustworthiness_is_scikit_learns(k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    for Z in (X[:, :2], rng.normal(size=(120, 2)), X):
        assert trustworthiness(X, Z, k).value == pytest.approx(manifold.trustworthiness(X, Z, n_neighbors=k))


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="X has 5 rows and Z has 4"):
        trustworthiness(np.zeros((5, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="less than 4"):
        trustworthiness(np.zeros((8, 2)), np.zeros((8, 2)), 5)


def test_maps_clusters_and_memories_are_judged():
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert judge(benthic.PCA(2).fit(X), X)["log_likelihood[exact]"] < 0
    assert 0.5 < judge(benthic.Isomap(2).fit(X), X)["trustworthiness"] <= 1
    model = benthic.KMeans(3, random_state=0).fit(X)
    assert judge(model, X)["distortion"] == pytest.approx(model.inertia_ / 60)
    assert judge(benthic.Hopfield().fit(X), X)["reconstruction_error"] >= 0
    assert not judgeable(object())
