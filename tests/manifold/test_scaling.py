"""Points from distances, and distances along a surface."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes
from sklearn import manifold
from sklearn.datasets import load_iris, make_swiss_roll

from benthic.manifold import MDS, PCA, Isomap, classical, smacof, stress

pytestmark = pytest.mark.spec("H-04")


def points(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_classical_scaling_gives_back_points():
    X = torch.tensor(points())
    places = classical(torch.cdist(X, X), 3).places
    assert procrustes(X.numpy(), places.numpy())[2] < 1e-20
    torch.testing.assert_close(torch.cdist(places, places), torch.cdist(X, X))


def test_classical_scaling_of_rows_is_pca():
    X = load_iris().data
    codes = PCA(2).fit_transform(X)
    places = MDS(2, method="classical").fit_transform(X)
    np.testing.assert_allclose(np.abs(places), np.abs(codes), atol=1e-8)


@pytest.mark.parametrize("method", ["classical", "metric"])
def test_new_points_land_where_they_belong(method):
    X = points(60, 2)
    model = MDS(2, method=method, random_state=0, tol=1e-14, max_iter=3000).fit(X[:50])
    places = model.transform(X)
    np.testing.assert_allclose(places[:50], model.embedding_, atol=1e-7)
    assert procrustes(X, places)[2] < 1e-8


def test_stress_never_rises_and_is_no_worse_than_scikit_learns():
    X = load_iris().data[::3]
    model = MDS(2, random_state=0).fit(X)
    assert (np.diff(model.stress_path_) <= 1e-12).all()
    theirs = manifold.MDS(2, n_init=4, random_state=0, init="random", normalized_stress=False).fit(X)
    assert model.stress_ <= theirs.stress_ * 1.001
    D = torch.cdist(torch.tensor(X), torch.tensor(X))
    assert model.stress_ == pytest.approx(float(stress(D, torch.tensor(model.embedding_))))


def test_smacof_finds_exact_places():
    X = torch.tensor(points(30, 2))
    noise = 0.1 * torch.randn(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = smacof(torch.cdist(X, X), X + noise, max_iter=2000, tol=1e-15)
    assert found.path[-1] < 1e-12


def test_distances_may_be_given():
    X = points(25, 2)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    one, two = (MDS(2, method="classical", metric=m).fit(A) for m, A in (("precomputed", D), ("euclidean", X)))
    np.testing.assert_allclose(np.abs(one.embedding_), np.abs(two.embedding_), atol=1e-8)
    np.testing.assert_allclose(one.transform(D[:4]), one.embedding_[:4], atol=1e-8)
    for bad, words in ((X, "matrix of distances"), (-D, "negative"), (np.triu(D), "not symmetric")):
        with pytest.raises(ValueError, match=words):
            MDS(metric="precomputed").fit(bad)


@pytest.mark.parametrize("graph", [{"n_neighbors": 10}, {"n_neighbors": None, "radius": 4.5}], ids=["k", "radius"])
def test_isomap_unrolls_the_swiss_roll(graph):
    X, t = make_swiss_roll(800, random_state=0)
    model = Isomap(2, **graph).fit(X)
    # the way along the spiral (t cos t, t sin t) has length (t sqrt(1 + t²) + asinh t) / 2
    flat = np.column_stack([(t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2, X[:, 1]])
    true = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    upper = np.triu_indices(800, 1)
    assert np.corrcoef(model.geodesics_[upper], true[upper])[0, 1] > 0.99
    found = np.linalg.norm(model.embedding_[:, None] - model.embedding_[None], axis=2)
    assert np.corrcoef(found[upper], true[upper])[0, 1] > 0.99
    np.testing.assert_allclose(model.transform(X[:20]), model.embedding_[:20], atol=1e-6)


def test_isomap_is_scikit_learns():
    X, _ = make_swiss_roll(200, random_state=1)
    ours, theirs = Isomap(2, n_neighbors=12).fit(X), manifold.Isomap(n_neighbors=12, n_components=2).fit(X)
    np.testing.assert_allclose(np.abs(ours.embedding_), np.abs(theirs.embedding_), rtol=1e-6, atol=1e-6)


def test_a_graph_in_parts_is_joined_and_said():
    X = np.concatenate([points(30, 2), points(30, 2, 1) + 50])
    with pytest.warns(UserWarning, match="has 2 parts.*raise n_neighbors"):
        model = Isomap(2, n_neighbors=4).fit(X)
    assert model.n_parts_ == 2 and np.isfinite(model.embedding_).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MDS(0), "n_components is 0"),
        (MDS(method="metrik"), "did you mean 'metric'"),
        (MDS(metric="euclid"), "euclid"),
        (Isomap(n_neighbors=0), "n_neighbors is 0"),
        (Isomap(radius=1.0), "either n_neighbors or radius"),
        (Isomap(n_neighbors=None, radius=-1.0), "radius is -1.0"),
    ],
)
def test_bad_settings_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(points())


def test_rows_far_from_all_others_are_refused():
    model = Isomap(2, n_neighbors=None, radius=2.0).fit(points(40, 2))
    with pytest.raises(ValueError, match="row 1 has no neighbor within radius"):
        model.transform(np.array([[0.0, 0.0], [100.0, 0.0]]))


def test_repeated_rows_are_no_trouble():
    X = np.repeat(points(10, 2), 3, axis=0)
    assert np.isfinite(MDS(2, random_state=0).fit(X).embedding_).all()
    assert np.isfinite(Isomap(2, n_neighbors=5).fit(X).embedding_).all()
