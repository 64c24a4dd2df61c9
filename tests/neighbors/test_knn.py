"""k-nearest neighbors against scikit-learn: neighbors, probabilities, predictions, in every metric and way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import neighbors as peer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import benthic
from benthic.base.errors import InvalidInput

SETS = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}


def halves(name):
    X, y = SETS[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    return X[: len(X) // 2], y[: len(X) // 2], X[len(X) // 2 :], y[len(X) // 2 :]


def normals(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: 1 / (1 + d)])
@pytest.mark.parametrize("name", SETS)
def test_probabilities_are_scikit_learns(name, weights):
    X, y, other, truth = halves(name)
    ours = benthic.KNeighborsClassifier(7, weights=weights).fit(X, y)
    theirs = peer.KNeighborsClassifier(7, weights=weights, algorithm="kd_tree").fit(X, y)
    # scikit-learn leaves the order of equal distances open: rows where the last place is tied are left out
    distance = theirs.kneighbors(other, 8)[0]
    clear = distance[:, 7] > distance[:, 6] * (1 + 1e-12)
    assert clear.mean() > 0.8
    np.testing.assert_allclose(
        ours.predict_proba(other)[clear], theirs.predict_proba(other)[clear], rtol=1e-9, atol=1e-12
    )
    assert abs(ours.score(other, truth) - theirs.score(other, truth)) < 0.02


@pytest.mark.spec("F-06")
@pytest.mark.filterwarnings("ignore:Parameter p is found")
@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("euclidean", None),
        ("manhattan", None),
        ("chebyshev", None),
        ("minkowski", {"p": 1.7}),
        ("cosine", None),
        ("mahalanobis", {"VI": np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]])}),
        ("hamming", None),
    ],
)
def test_neighbors_are_scikit_learns_in_every_metric(metric, params, algorithm):
    X, other = normals(400, 3), normals(50, 3, 1)
    if metric == "hamming":
        X, other = np.random.default_rng(0).integers(0, 9, (400, 12)), np.random.default_rng(1).integers(0, 9, (50, 12))
        X, other = X.astype(float), other.astype(float)
        if algorithm == "kd_tree":
            with pytest.raises(InvalidInput, match="kd_tree"):
                benthic.KNeighborsRegressor(metric=metric, algorithm=algorithm).fit(X, X[:, 0])
            return
    ours = benthic.KNeighborsRegressor(5, metric=metric, metric_params=params, algorithm=algorithm).fit(X, X[:, 0])
    theirs = peer.NearestNeighbors(n_neighbors=5, metric=metric, metric_params=params, algorithm="brute").fit(X)
    distance, index = ours.kneighbors(other)
    want, order = theirs.kneighbors(other)
    np.testing.assert_allclose(distance, want, rtol=1e-7, atol=1e-9)
    if metric != "hamming":
        np.testing.assert_array_equal(index, order)


@pytest.mark.spec("F-06")
def test_regression_is_scikit_learns_with_one_and_many_targets():
    X, y = load_diabetes(return_X_y=True)
    both = np.stack([y, X[:, 0]], 1)
    for targets in (y, both):
        for weights in ("uniform", "distance"):
            ours = benthic.KNeighborsRegressor(6, weights=weights).fit(X[:300], targets[:300])
            theirs = peer.KNeighborsRegressor(6, weights=weights).fit(X[:300], targets[:300])
            np.testing.assert_allclose(ours.predict(X[300:]), theirs.predict(X[300:]), rtol=1e-7)
            assert ours.predict(X[300:]).shape == targets[300:].shape


def test_every_way_gives_one_answer():
    X, other = normals(500, 4), normals(100, 4, 1)
    y = (X[:, 0] > 0).astype(int)
    found = [
        benthic.KNeighborsClassifier(5, algorithm=way, weights="distance").fit(X, y).predict_proba(other)
        for way in ("auto", "brute", "kd_tree")
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("width", [2, 9])
@pytest.mark.parametrize("alone", [False, True])
def test_rows_that_are_added_count_as_if_they_had_been_there(width, alone):
    X, other = normals(400, width), None if alone else normals(50, width, 1)
    y = (X[:, 0] > 0).astype(int)
    whole = benthic.KNeighborsClassifier(4).fit(X, y)
    parts = benthic.KNeighborsClassifier(4)
    for rows in np.split(np.arange(400), [1, 3, 100, 250, 390]):
        parts.partial_fit(X[rows], y[rows], classes=[0, 1])
    for a, b in zip(whole.kneighbors(other), parts.kneighbors(other), strict=True):
        np.testing.assert_array_equal(a, b)
    grown = benthic.KNeighborsRegressor(4).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(grown.predict(X), benthic.KNeighborsRegressor(4).fit(X, y).predict(X))
    with pytest.raises(InvalidInput, match="y has the class 2, but the classes are"):
        parts.partial_fit(X[:2], [0, 2])


def test_graphs_are_scikit_learns():
    X = normals(60, 3)
    ours, theirs = benthic.KNeighborsRegressor(3).fit(X, X[:, 0]), peer.NearestNeighbors(n_neighbors=3).fit(X)
    for mode in ("connectivity", "distance"):
        for rows in (None, X[:5]):
            a, b = ours.kneighbors_graph(rows, mode=mode), theirs.kneighbors_graph(rows, mode=mode)
            np.testing.assert_allclose(a.toarray(), b.toarray(), rtol=1e-9, atol=1e-9)
    with pytest.raises(InvalidInput, match="did you mean 'distance'"):
        ours.kneighbors_graph(mode="distances")


def test_ties_are_decided_by_place():
    X = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    model = benthic.KNeighborsClassifier(2).fit(X, ["b", "a", "a", "b"])
    np.testing.assert_array_equal(model.kneighbors([[0.0]], return_distance=False), [[0, 1]])
    assert model.predict([[0.0]])[0] == "a"  # one vote each: the first class
    exact = benthic.KNeighborsRegressor(3, weights="distance").fit(X, [1.0, 2.0, 3.0, 4.0])
    assert exact.predict([[1.0]])[0] == pytest.approx(2.0)  # the two that coincide decide alone


def test_tensors_stay_tensors_and_callables_get_tensors():
    X = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    model = benthic.KNeighborsClassifier(3, metric=lambda a, b: (a - b).abs().sum(-1)).fit(X, X[:, 0] > 0)
    distance, index = model.kneighbors(X[:4])
    assert distance.dtype == torch.float32 and index.dtype == torch.int64
    want = benthic.KNeighborsClassifier(3, metric="l1").fit(X, X[:, 0] > 0).kneighbors(X[:4])
    assert torch.equal(index, want[1])
    torch.testing.assert_close(distance, want[0])
    assert model.predict(X[:4]).dtype == torch.bool


def test_frames_with_categories(tmp_path):
    frame = pd.DataFrame({"size": [1.0, 1.1, 3.0, 3.1], "color": pd.Categorical(["red", "red", "blue", "blue"])})
    model = benthic.KNeighborsClassifier(1).fit(frame, ["x", "x", "y", "y"])
    assert model.predict(frame).tolist() == ["x", "x", "y", "y"]
    frame.assign(kind=["x", "x", "y", "y"]).to_csv(tmp_path / "rows.csv", index=False)
    from_file = benthic.KNeighborsClassifier(1).fit(tmp_path / "rows.csv", "kind")
    assert from_file.predict(frame).tolist() == ["x", "x", "y", "y"]


def test_a_tree_survives_a_file(tmp_path):
    X = normals(300, 2)
    model = benthic.KNeighborsRegressor(4, weights="distance").fit(X, X[:, 0])
    assert model.algorithm_ == "kd_tree"
    loaded = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X + 0.1), model.predict(X + 0.1))
    with pytest.raises(ValueError, match="metric"):
        benthic.KNeighborsRegressor(metric=lambda a, b: (a - b).norm(dim=-1)).fit(X, X[:, 0]).save(tmp_path / "n")


X, Y = normals(30, 3), np.arange(30.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_neighbors": 0}, "n_neighbors > 0"),
        ({"n_neighbors": 2.5}, "n_neighbors is 2.5; it must be a whole number"),
        ({"metric": "euclidian"}, "did you mean 'euclidean'"),
        ({"metric": "levenshtein"}, "metric is 'levenshtein'; use euclidean"),
        ({"weights": "distances"}, "did you mean 'distance'"),
        ({"algorithm": "kdtree"}, "did you mean 'kd_tree'"),
        ({"p": -1}, "p is -1; the power"),
        ({"leaf_size": 0}, "leaf_size is 0"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"metric_params": {"W": 1}}, "metric_params has 'W'"),
        ({"metric": "mahalanobis", "metric_params": {"VI": -np.eye(3)}}, "not positive definite"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        benthic.KNeighborsRegressor(**settings).fit(X, Y).predict(X)
    assert str(caught.value).startswith("KNeighborsRegressor.")


def test_more_neighbors_than_rows():
    model = benthic.KNeighborsRegressor(31).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"Expected n_neighbors <= n_samples_fit.*n_neighbors = 31"):
        model.predict(X)
    with pytest.raises(InvalidInput, match="n_samples_fit = 29"):
        model.kneighbors(n_neighbors=30)


def test_weights_that_are_no_weights():
    for model, verb in ((benthic.KNeighborsRegressor, "predict"), (benthic.KNeighborsClassifier, "predict_proba")):
        with pytest.raises(InvalidInput, match=f"{verb}: weights are zero for all neighbors of a row"):
            getattr(model(weights=lambda d: 0 * d).fit(X, Y % 3), verb)(X)
    with pytest.raises(InvalidInput, match="weights must map distances"):
        benthic.KNeighborsRegressor(weights=lambda d: -d).fit(X, Y).predict(X + 1)


def test_one_class_and_zero_rows_for_the_cosine():
    with pytest.raises(InvalidInput, match="only one class"):
        benthic.KNeighborsClassifier().fit(X, np.zeros(30))
    with pytest.raises(InvalidInput, match="row of zeros"):
        benthic.KNeighborsRegressor(metric="cosine").fit(np.zeros((9, 2)), np.arange(9.0)).predict(np.ones((1, 2)))
