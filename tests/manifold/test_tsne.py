"""t-SNE: perplexities, gradients, the grid, quality beside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import manifold
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from benthic.manifold import TSNE, tsne_forces
from benthic.manifold.affinities import conditional, neighbors_for, symmetric
from benthic.manifold.tsne_descent import OnProcessor
from benthic.manifold.tsne_device import OnDevice, repel
from benthic.manifold.tsne_forces import Grid, exact_repulsion, repulsion_of

pytestmark = pytest.mark.spec("H-04")


def problem(n=300, d=8, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = torch.tensor(rng.normal(size=(n, d)))
    apart = torch.cdist(X, X).fill_diagonal_(np.inf)
    square, index = apart.topk(neighbors_for(20.0, n), largest=False)
    edges = symmetric(index, conditional(square.square(), 20.0))
    return edges, rng.normal(scale=3.0, size=(k, n)).astype(np.float32)


def dense(edges, n):
    P = np.zeros((n, n))
    for i in range(n):
        P[i, edges[1][edges[0][i] : edges[0][i + 1]]] = edges[2][edges[0][i] : edges[0][i + 1]]
    return P


def kl(P, Y):
    """The divergence by its definition, differentiable in Y (n, k)."""
    q = 1 / (1 + (Y[:, None] - Y[None]).square().sum(2))
    q = q * (1 - torch.eye(len(Y), dtype=q.dtype))
    Q = q / q.sum()
    kept = P > 0
    return (P[kept] * (P[kept] / Q[kept]).log()).sum()


@pytest.mark.parametrize("perplexity", [1.5, 5.0, 30.0, 80.0])
def test_every_row_has_the_asked_perplexity(perplexity):
    rng = torch.Generator().manual_seed(0)
    scale = torch.logspace(-8, 8, 50, dtype=torch.float64)[:, None]
    square = scale * torch.rand(50, 100, generator=rng, dtype=torch.float64)
    p = conditional(square, perplexity)
    found = torch.exp(-torch.special.xlogy(p, p).sum(1))
    torch.testing.assert_close(found, torch.full_like(found, perplexity), rtol=1e-9, atol=0)
    torch.testing.assert_close(p.sum(1), torch.ones(50, dtype=torch.float64))


def test_rows_with_equal_distances_are_no_trouble():
    torch.testing.assert_close(conditional(torch.zeros(3, 10), 4.0), torch.full((3, 10), 0.1, dtype=torch.float64))


def test_affinities_are_symmetric_and_sum_to_one():
    edges, _ = problem()
    P = dense(edges, 300)
    np.testing.assert_allclose(P, P.T)
    assert P.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_slopes_are_those_of_the_divergence(k):
    edges, places = problem(k=k)
    Y = torch.tensor(places.T, dtype=torch.float64, requires_grad=True)
    value = kl(torch.tensor(dense(edges, 300)), Y)
    (slope,) = torch.autograd.grad(value, Y)
    forces = OnProcessor(edges, "exact", 300, k)
    np.testing.assert_allclose(forces.slope(places, 1.0), slope.T, atol=2e-6 * float(slope.abs().max()) + 1e-8)
    assert forces.divergence(places) == pytest.approx(float(value.detach()), rel=1e-5)
    there = OnDevice(*(torch.from_numpy(part) for part in edges))
    found = there.slope(torch.from_numpy(places), 1.0).numpy()
    np.testing.assert_allclose(found, slope.T, atol=1e-5 * float(slope.abs().max()) + 1e-8)
    assert there.divergence(torch.from_numpy(places)) == pytest.approx(float(value.detach()), rel=1e-5)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
def test_the_grid_agrees_with_all_pairs(k, scale):
    places = (scale * np.random.default_rng(0).normal(size=(k, 1000))).astype(np.float32)
    near, far = np.empty_like(places), np.empty_like(places)
    exact, found = exact_repulsion(places, near), Grid().repulsion(places, far)
    assert found == pytest.approx(exact, rel=1e-2)
    assert np.linalg.norm(near - far) < 0.02 * np.linalg.norm(near)  # worst for few points far apart
    force, total = repel(torch.from_numpy(places))
    assert float(total) == pytest.approx(exact, rel=1e-4)
    np.testing.assert_allclose(force, near, atol=1e-3 * np.abs(near).max())


def test_a_map_no_worse_than_scikit_learns():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    ours = TSNE(perplexity=20, max_iter=500, random_state=0).fit(X)
    theirs = manifold.TSNE(perplexity=20, max_iter=500, random_state=0, init="pca").fit(X)
    assert ours.kl_divergence_ < theirs.kl_divergence_ + 0.02
    scores = [
        KNeighborsClassifier(1).fit(map_[:500], y[:500]).score(map_[500:], y[500:])
        for map_ in (ours.embedding_, theirs.embedding_)
    ]
    assert scores[0] > scores[1] - 0.04
    assert ours.kl_path_[-1] == ours.kl_divergence_ and ours.n_iter_ == 500


def test_a_map_through_the_grid_is_as_good(monkeypatch):
    monkeypatch.setattr(tsne_forces, "_PAIRS_A_NODE", 0)  # so that few rows go through it
    X = load_digits().data[:300]
    settings = {"perplexity": 20, "max_iter": 250, "exaggeration_iter": 100, "random_state": 0}
    near, far = TSNE(method="exact", **settings).fit(X), TSNE(method="fft", **settings).fit(X)
    assert far.kl_divergence_ < near.kl_divergence_ + 0.03


def test_few_rows_go_over_all_pairs_and_a_grid_is_bounded(monkeypatch):
    """Places that fly apart ask for a grid of any size, which took gigabytes on 24 rows."""
    places, force = np.random.default_rng(0).normal(scale=1e6, size=(2, 24)).astype(np.float32), np.empty((2, 24))
    monkeypatch.setattr(Grid, "repulsion", None)
    repulsion_of("fft", 24, 2)(places, force.astype(np.float32))
    assert tsne_forces._boxes(places) == tsne_forces._MOST_BOXES == tsne_forces._boxes(places * np.nan)
    assert tsne_forces._boxes(places * 1e-5) < 100


def test_new_rows_settle_among_their_own():
    X, y = load_digits(return_X_y=True)
    model = TSNE(perplexity=20, max_iter=400, random_state=0).fit(X[:600])
    new = model.transform(X[600:700])
    answers = KNeighborsClassifier(5).fit(model.embedding_, y[:600]).predict(new)
    assert (answers == y[600:700]).mean() > 0.9
    np.testing.assert_allclose(model.transform(X[:5]), model.embedding_[:5], atol=1e-5)


def test_given_starts_and_few_rows():
    X = np.random.default_rng(0).normal(size=(30, 3))
    start = np.random.default_rng(1).normal(size=(30, 2)) * 1e-4
    one, two = (TSNE(init=start, max_iter=100, perplexity=5).fit(X).embedding_ for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert TSNE().fit(X[:2]).embedding_.shape == (2, 2)
    assert TSNE().fit(X).perplexity_ == pytest.approx(29 / 3)


def test_repeated_rows_are_no_trouble():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 20, axis=0)
    assert np.isfinite(TSNE(perplexity=10, max_iter=100).fit(X).embedding_).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"perplexity": 60}, "perplexity is 60 and each of the 50 rows has 49 others"),
        ({"perplexity": 0.5}, "perplexity is 0.5"),
        ({"n_components": 0}, "n_components is 0"),
        ({"learning_rate": -1}, "learning_rate is -1"),
        ({"method": "barnes_hut"}, "method 'barnes_hut' is unknown"),
        ({"init": "spectral"}, "init 'spectral' is unknown"),
        ({"init": np.zeros((3, 2))}, r"init has shape \(3, 2\); expected \(50, 2\)"),
        ({"metric": "euclidian"}, "euclidean"),
        ({"early_exaggeration": 1e9}, "TSNE.fit: .*too far apart for single precision; lower early_exaggeration"),
        ({"learning_rate": 1e30}, "TSNE.fit: .*too far apart for single precision; lower early_exaggeration"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        TSNE(**settings).fit(np.random.default_rng(0).normal(size=(50, 3)))


def test_the_distance_is_checked_however_few_rows_there_are():
    with pytest.raises(ValueError, match="TSNE.fit: metric 'nonsense' is unknown"):
        TSNE(metric="nonsense").fit(np.eye(3))
