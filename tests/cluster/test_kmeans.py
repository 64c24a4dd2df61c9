"""k-means: monotone distortion, bounds that change nothing, weights, repair, minibatches, the number of clusters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as Reference
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score

import benthic
from benthic.cluster import KMeans, choose_clusters, nearest, silhouette
from benthic.cluster.memory import memory_of

pytestmark = pytest.mark.spec("H-01")


def blobs(n=600, d=5, k=4, spread=1.0, seed=0):
    return make_blobs(n, d, centers=k, cluster_std=spread, random_state=seed)


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_centers_as_scikit_learn_from_the_same_start(algorithm, dtype):
    X = load_digits().data.astype(dtype)
    start = X[:10]
    ours = KMeans(10, init=start, tol=0, algorithm=algorithm).fit(X)
    theirs = Reference(10, init=start, n_init=1, tol=0).fit(X)
    np.testing.assert_allclose(
        ours.cluster_centers_, theirs.cluster_centers_, atol=1e-4 if dtype == "float32" else 1e-9
    )
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-5 if dtype == "float32" else 1e-10)
    assert (ours.labels_ == theirs.labels_).all() and (ours.labels_ == ours.predict(X)).all()
    np.testing.assert_allclose(ours.transform(X[:5]), theirs.transform(X[:5]), rtol=1e-3, atol=1e-3)


def test_distortion_never_rises():
    X, _ = blobs(2000, 8, 12, spread=3.0)
    for seed in range(5):
        path = KMeans(12, random_state=seed, init="random", n_init=1, tol=0).fit(X).distortions_
        assert len(path) > 1 and (np.diff(path) <= 1e-9 * path[0]).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_give_the_same_sums_as_looking_at_all_rows(weighted):
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(3000, 6)) + 3 * rng.integers(0, 4, size=(3000, 1)))
    weight = torch.from_numpy(rng.random(3000)) if weighted else None
    bounded, plain = memory_of(X, weight, True), memory_of(X, weight, False)
    centers, skipped = X[:20].clone(), False
    for _ in range(25):
        before = bounded._resting
        one, two = bounded.step(centers), plain.step(centers)
        skipped = skipped or (before == 0 and bounded._resting == 0)
        torch.testing.assert_close(one.sums, two.sums, rtol=1e-10, atol=1e-9)
        assert one.changed == two.changed and (bounded.labels == plain.labels).all()
        labels = torch.cdist(X, centers).argmin(1)
        assert (torch.from_numpy(bounded.labels) == labels).all()
        one_hot = torch.nn.functional.one_hot(labels, 20).double() * (1.0 if weight is None else weight[:, None])
        torch.testing.assert_close(one.sums[:, :-1], one_hot.T @ X, rtol=1e-9, atol=1e-8)
        mass = one.sums[:, -1:]
        centers = torch.where(mass > 0, one.sums[:, :-1] / mass.clamp(min=1e-9), centers)
    assert skipped


def test_an_integer_weight_is_a_repeated_row():
    X, _ = blobs(300, 4, 5, spread=2.0)
    weight = np.random.default_rng(1).integers(0, 4, 300)
    one = KMeans(5, random_state=3).fit(X, sample_weight=weight)
    two = KMeans(5, random_state=3).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(one.cluster_centers_, two.cluster_centers_, atol=1e-7)
    assert one.inertia_ == pytest.approx(two.inertia_, rel=1e-9)


def test_an_empty_cluster_is_given_rows_of_the_widest_one():
    X, _ = blobs(200, 2, 3, seed=2)
    start = np.vstack([X[:2], [[1e3, 1e3]], [[-1e3, 1e3]]])
    model = KMeans(4, init=start).fit(X)
    assert np.bincount(model.labels_, minlength=4).min() > 0
    assert (np.diff(model.distortions_) <= 1e-9 * model.distortions_[0]).all()


@pytest.mark.parametrize("algorithm", ["hamerly", "lloyd", "minibatch"])
def test_fewer_distinct_rows_than_clusters_is_said(algorithm):
    for seed in range(3):
        for places in (1, 2, 3):
            X = np.repeat(np.random.default_rng(seed).normal(size=(places, 2)).round(1), 7, axis=0)
            words = rf"distinct clusters \({places}\) found smaller than n_clusters \(5\)"
            with pytest.warns(ConvergenceWarning, match=words):
                model = KMeans(5, algorithm=algorithm, random_state=seed).fit(X)
            assert model.inertia_ == pytest.approx(0.0, abs=1e-20)
            np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_centers_as_far_apart_as_rounding_are_one_cluster():
    X = np.repeat([[-0.7, -0.2], [1.7, 0.7]], 7, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
        model = KMeans(4, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(0.0, abs=1e-20)


def test_plus_plus_starts_are_near_the_best():
    X, y = blobs(1000, 10, 8)
    model = KMeans(8, random_state=0, n_init=3).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.99


def test_minibatches_come_close_to_all_rows():
    X, _ = blobs(4000, 6, 6, spread=2.0)
    whole = KMeans(6, random_state=0, n_init=3).fit(X)
    small = KMeans(6, random_state=0, algorithm="minibatch", trainer={"batch_size": 128, "verbose": False}).fit(X)
    assert small.inertia_ < 1.05 * whole.inertia_


def test_partial_fit_goes_on_from_the_last_batch():
    X, _ = blobs(3000, 3, 4)
    model = KMeans(4, random_state=0)
    for part in np.array_split(X, 30):
        model.partial_fit(part)
    assert model.n_iter_ == 30 and model.counts_.sum() == 3000
    assert -model.score(X) < 1.1 * KMeans(4, random_state=0, n_init=3).fit(X).inertia_
    with pytest.raises(ValueError, match="fewer than n_clusters=4"):
        KMeans(4).partial_fit(X[:2])


def test_a_file_is_read_pass_by_pass(tmp_path):
    X, _ = blobs(2000, 3, 4)
    path = tmp_path / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    start = X[:4]
    quiet = {"verbose": False, "batch_size": 300}
    one = KMeans(4, init=start, tol=0, trainer=quiet).fit(path)
    two = KMeans(4, init=start, tol=0).fit(X)
    np.testing.assert_allclose(one.cluster_centers_, two.cluster_centers_, atol=1e-9)
    assert one.inertia_ == pytest.approx(two.inertia_, rel=1e-9) and not hasattr(one, "labels_")


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    X, _ = blobs(1500, 6, 9, spread=4.0)
    save = {"checkpoint": str(tmp_path), "verbose": False}
    whole = KMeans(9, random_state=1, tol=0).fit(X)
    with pytest.warns(ConvergenceWarning, match="still changed"):
        KMeans(9, random_state=1, tol=0, trainer={**save, "steps": 2}).fit(X)
    again = KMeans(9, random_state=1, tol=0, trainer={**save, "resume": True}).fit(X)
    assert whole.n_iter_ > 2 and again.n_iter_ == whole.n_iter_
    assert (again.cluster_centers_ == whole.cluster_centers_).all()


@pytest.mark.parametrize("criterion", ["silhouette", "gap", "elbow"])
def test_the_number_of_clusters_is_found(criterion):
    X, _ = make_blobs(400, centers=[[0, 0], [12, 0], [0, 12], [12, 12]], random_state=0)
    found = choose_clusters(X, criterion, 8, seed=0)
    assert found.best == 4
    model = KMeans(criterion, max_clusters=8, random_state=0).fit(X)
    assert len(model.cluster_centers_) == 4 and model.choice_["best"] == 4
    assert len(found.plot().axes) == 2


def test_uniform_data_has_one_cluster_by_the_gap():
    X = np.random.default_rng(0).random((300, 2))
    assert choose_clusters(X, "gap", 5, seed=0).best == 1


def test_silhouette_is_scikit_learns():
    X, y = load_iris(return_X_y=True)
    assert silhouette(torch.from_numpy(X), torch.from_numpy(y)) == pytest.approx(silhouette_score(X, y), rel=1e-9)


def test_nearest_takes_the_closest():
    rng = torch.Generator().manual_seed(0)
    X, centers = torch.randn(500, 7, generator=rng), torch.randn(13, 7, generator=rng)
    labels, cost = nearest(X, centers)
    distances = torch.cdist(X.double(), centers.double())
    assert (labels == distances.argmin(1)).all()
    torch.testing.assert_close(cost.double(), distances.amin(1).square(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_clusters": 0}, "n_clusters is 0; it must be a whole number"),
        ({"n_clusters": "silhouete"}, "did you mean 'silhouette'"),
        ({"n_clusters": 2, "init": "kmeans"}, "init 'kmeans' is unknown"),
        ({"n_clusters": 2, "init": np.zeros((3, 4))}, "shape of the initial centers"),
        ({"n_clusters": 2, "algorithm": "elkan"}, "algorithm 'elkan' is unknown"),
        ({"n_clusters": 2, "precision": "fats"}, "did you mean 'fast'"),
        ({"n_clusters": 2, "tol": -1.0}, "tol is -1.0"),
        ({"n_clusters": 2, "n_init": 0}, "n_init is 0"),
        ({"n_clusters": 1000}, "n_samples = 150 should be >= n_clusters = 1000"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        KMeans(**settings).fit(load_iris().data)


def test_pictures_and_summary():
    X, _ = blobs()
    model = KMeans(4, random_state=0).fit(X)
    assert len(model.plot(X).axes) == 2 and "distortion" in model.summary()
    assert benthic.KMeans is KMeans
