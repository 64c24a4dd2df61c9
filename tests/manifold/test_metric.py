"""Learned distances and metrics that change from place to place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from benthic.manifold import LocalMetric, MahalanobisMetric
from benthic.manifold.metric import _same_class

pytestmark = pytest.mark.spec("H-06")


def test_the_slope_is_that_of_the_definition():
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(30, 4, generator=rng, dtype=torch.float64)
    labels = torch.randint(3, (30,), generator=rng)
    J = torch.randn(2, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    D = (X @ J.T)[:, None] - (X @ J.T)[None]
    P = torch.softmax(-D.square().sum(2) + torch.diag(torch.full((30,), -torch.inf, dtype=torch.float64)), 1)
    value = (P * (labels[:, None] == labels[None])).sum()
    (slope,) = torch.autograd.grad(value, J)
    found = _same_class(J.detach(), X, labels)
    torch.testing.assert_close(found[0], value.detach())
    torch.testing.assert_close(found[1], slope)


def test_no_worse_than_scikit_learns_neighborhood_components():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    ours = MahalanobisMetric(2, max_iter=200, random_state=0).fit(X, y)
    theirs = NeighborhoodComponentsAnalysis(2, init="pca", max_iter=200, random_state=0).fit(X, y)
    share = _same_class(torch.tensor(theirs.components_), torch.tensor(X), torch.tensor(y))[0] / len(X)
    assert ours.objective_ > float(share) - 0.01
    assert KNeighborsClassifier(3).fit(ours.transform(X), y).score(ours.transform(X), y) > 0.98


def test_a_metric_of_low_rank_is_a_pseudometric():
    X, y = load_iris(return_X_y=True)
    model = MahalanobisMetric(1).fit(X, y)
    assert model.rank_ == 1 and model.metric_.shape == (4, 4)
    null = np.linalg.svd(model.components_)[2][1]
    assert model.distances(X[:1], X[:1] + null)[0, 0] < 1e-6
    np.testing.assert_allclose(model.metric_, model.components_.T @ model.components_)


def test_without_labels_it_is_mahalanobis_own():
    X = load_iris().data
    model = MahalanobisMetric().fit(X)
    np.testing.assert_allclose(model.metric_, np.linalg.inv(np.cov(X.T)), rtol=1e-8)
    gap = X[0] - X[1]
    assert model.distances(X[:1], X[1:2])[0, 0] == pytest.approx(np.sqrt(gap @ model.metric_ @ gap))


def arc(n=80):
    t = torch.linspace(0, np.pi, n, dtype=torch.float64)
    noise = 0.03 * torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.stack([t.cos(), t.sin()], 1) + noise


def test_ways_bend_as_the_slope_of_the_energy_says():
    metric = LocalMetric(arc(), sigma=0.3)
    x = torch.tensor([[0.3, 0.7]], dtype=torch.float64, requires_grad=True)
    v = torch.tensor([[0.5, -0.2]], dtype=torch.float64)
    M = metric.diagonal(x)
    slope = torch.stack([torch.autograd.grad(M[0, j], x, retain_graph=True)[0][0] for j in range(2)])  # (j, k)
    along, across = slope @ v[0], v[0].square() @ slope
    expected = -(2 * along * v[0] - across) / (2 * M[0].detach())
    torch.testing.assert_close(metric.acceleration(x.detach(), v)[0], expected)


def test_speed_is_constant_along_a_way():
    metric = LocalMetric(arc(), sigma=0.3)
    points = metric.shoot([0.9, 0.2], [-0.3, 0.8], torch.linspace(0, 1, 401))
    steps = (points[1:] - points[:-1]) * 400
    speed = (metric.diagonal(0.5 * (points[1:] + points[:-1])) * steps.square()).sum(1).sqrt()
    assert float(speed.std() / speed.mean()) < 1e-3


def test_the_shortest_way_follows_the_data():
    X = arc()
    metric = LocalMetric(X, sigma=0.15)
    way = metric.geodesic(X[0], X[-1], steps=80)
    assert way.length < 0.7 * way.straight and float(way.points.norm(dim=1).min()) > 0.75
    # the same way comes from its first velocity alone
    first = (-3 * way.points[0] + 4 * way.points[1] - way.points[2]) / 2 * (len(way.points) - 1)
    shot = metric.shoot(way.points[0], first, torch.linspace(0, 0.3, 13))
    assert float((shot[4] - way.points[8]).norm()) < 0.01 and float((shot[-1] - way.points[24]).norm()) < 0.06
    assert len(metric.plot([way]).axes) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LocalMetric([[1.0, 2.0]]), "at least 2"),
        (lambda: LocalMetric(arc(), sigma=-1.0), "sigma is -1.0"),
        (lambda: LocalMetric(arc(), rho=0.0), "rho is 0.0"),
        (lambda: LocalMetric(torch.zeros(5, 2)), "are most rows the same"),
        (lambda: LocalMetric(arc()).geodesic([0.0], [1.0]), "must have 2 numbers"),
        (lambda: LocalMetric(torch.randn(9, 3)).plot(), "a picture needs 2"),
        (lambda: MahalanobisMetric(9).fit(*load_iris(return_X_y=True)), "more than the 4 columns"),
        (lambda: MahalanobisMetric(0).fit(load_iris().data), "n_components is 0"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
