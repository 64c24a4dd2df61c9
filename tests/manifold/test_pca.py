"""Principal components: scikit-learn's numbers, the law that belongs to them, gaps, streams, linear autoencoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn import decomposition
from sklearn.datasets import load_breast_cancer, load_digits, load_iris

import benthic
from benthic.linalg import scatter_matrix
from benthic.manifold import PCA
from benthic.manifold.spectrum import spectrum

pytestmark = pytest.mark.spec("H-04")


@pytest.mark.parametrize("solver", ["auto", "covariance", "full", "randomized"])
@pytest.mark.parametrize("whiten", [False, True])
def test_the_same_as_scikit_learn(solver, whiten):
    X = load_iris().data
    ours, theirs = (
        PCA(3, svd_solver=solver, whiten=whiten, random_state=0).fit(X),
        decomposition.PCA(3, whiten=whiten).fit(X),
    )
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_", "noise_variance_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-8)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-7)
    np.testing.assert_allclose(ours.reconstruct(X), theirs.inverse_transform(theirs.transform(X)), atol=1e-8)
    plain = decomposition.PCA(3).fit(X)  # the law does not depend on the scale of the codes
    np.testing.assert_allclose(ours.score(X), plain.score(X), rtol=1e-8)
    np.testing.assert_allclose(ours.get_covariance(), plain.get_covariance(), atol=1e-9)


def test_components_are_orthonormal_and_ordered():
    model = PCA().fit(load_breast_cancer().data)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(30), atol=1e-10)
    assert (np.diff(model.explained_variance_) <= 0).all()


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_share_of_variance(share):
    X = load_digits().data
    ours, theirs = PCA(share).fit(X), decomposition.PCA(share, svd_solver="full").fit(X)
    assert ours.n_components_ == theirs.n_components_


def test_the_law_is_scipys():
    X = load_iris().data
    model = PCA(2).fit(X)
    law = multivariate_normal(model.mean_, model.get_covariance())
    np.testing.assert_allclose(model.log_prob(X), law.logpdf(X), rtol=1e-9)
    drawn = model.sample(40_000, seed=0)
    error = np.sqrt(np.diag(model.get_covariance()) / 40_000)
    assert (np.abs(drawn.mean(0) - model.mean_) < 5 * error).all()
    scale = np.sqrt(np.outer(*2 * [np.diag(model.get_covariance())]))
    assert (np.abs(np.cov(drawn.T) - model.get_covariance()) < 5 * np.sqrt(2 / 40_000) * scale).all()


def test_a_gap_is_filled_by_its_conditional_mean():
    X = load_iris().data
    model = PCA(2).fit(X)
    covariance, mean = model.get_covariance(), model.mean_
    row = X[3].copy()
    row[2] = np.nan
    rest = [0, 1, 3]
    weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, 2])
    assert model.impute(row[None])[0, 2] == pytest.approx(mean[2] + weights @ (X[3, rest] - mean[rest]), rel=1e-9)


def test_rows_with_gaps_teach_nearly_the_same_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(2000, 6))
    holed = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    cosines = np.linalg.svd(PCA(2).fit(X).components_ @ PCA(2).fit(holed).components_.T)[1]
    assert cosines.min() > 0.9995


def test_a_linear_autoencoder_ends_in_the_same_space():
    X = load_iris().data
    X = X - X.mean(0)
    model = PCA(2).fit(X)
    rows = torch.tensor(X)
    generator = torch.Generator().manual_seed(0)
    weights = [0.3 * torch.randn(4, 2, dtype=torch.float64, generator=generator) for _ in ("down", "up")]
    for weight in weights:
        weight.requires_grad_()
    optimizer = torch.optim.LBFGS(weights, max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15)

    def closure():
        optimizer.zero_grad()
        loss = (rows @ weights[0] @ weights[1].T - rows).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    left = float(np.square(X - model.reconstruct(X)).sum())
    assert closure().item() == pytest.approx(left, rel=1e-6)
    basis = np.linalg.qr(weights[1].detach().numpy())[0]
    assert np.linalg.svd(basis.T @ model.components_.T)[1].min() > 1 - 1e-5


def test_blocks_of_rows_and_files_add_up(tmp_path):
    X = load_iris().data
    whole = PCA(3).fit(X)
    parts = PCA(3)
    for part in np.array_split(X, 7):
        parts.partial_fit(part)
    path = tmp_path / "iris.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    read = PCA(3, trainer={"batch_size": 40, "verbose": False}).fit(path)
    for model in (parts, read):
        np.testing.assert_allclose(model.explained_variance_, whole.explained_variance_, rtol=1e-9)
        np.testing.assert_allclose(np.abs(model.components_), np.abs(whole.components_), atol=1e-8)


def test_wide_tables_by_a_sketch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 900)) + 0.01 * rng.normal(size=(80, 900))
    ours, theirs = PCA(5, random_state=0).fit(X), decomposition.PCA(5, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-6)


def test_scatter_matrix():
    rng = torch.Generator().manual_seed(0)
    X, weight = torch.randn(1000, 7, generator=rng), torch.rand(1000, generator=rng)
    center = X.double().mean(0)
    gaps = X.double() - center
    torch.testing.assert_close(scatter_matrix(X, center), gaps.T @ gaps)
    torch.testing.assert_close(scatter_matrix(X, center, weight), (gaps.T * weight.double()) @ gaps)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"n_components": 1.5}, "n_components is 1.5"),
        ({"n_components": 9}, "must be between 1 and min"),
        ({"svd_solver": "arpack"}, "svd_solver 'arpack' is unknown"),
        ({"svd_solver": "randomized"}, "needs a whole number"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        PCA(**settings).fit(load_iris().data)


def test_picture_and_summary():
    X = load_iris().data
    model = benthic.PCA(3).fit(X)
    assert len(model.plot(X).axes) == 2 and len(model.plot().axes) == 1
    assert "variance kept" in model.summary()


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_single_precision_products_give_the_subspace_of_double_ones(offset):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(60_000, 6)) @ rng.normal(size=(6, 24)) + 0.3 * rng.normal(size=(60_000, 24)) + offset
    X = torch.from_numpy(wide).float()
    found, right = spectrum(X, "covariance", 6, 0), spectrum(X.double(), "covariance", 6, 0)
    # products of 4096 rows are right to about 1e-6 of the first variance, and gaps of variances are above a tenth of it
    torch.testing.assert_close(found.variances[:6], right.variances[:6], rtol=1e-5, atol=0)
    torch.testing.assert_close(found.mean, right.mean, rtol=1e-6, atol=1e-6)
    lost = found.directions[:6] - found.directions[:6] @ right.directions[:6].T @ right.directions[:6]
    assert float(lost.norm()) < 1e-4


def test_narrow_directions_are_found_in_double_precision():
    rng = np.random.default_rng(0)
    scales = np.array([1.0] * 10 + [1e-4] * 10)  # variances 1e-8 apart, below what single-precision products tell
    X = (rng.normal(size=(60_000, 20)) * scales).astype(np.float32)
    found = spectrum(torch.from_numpy(X), "covariance", None, 0)
    right = np.linalg.eigvalsh(np.cov(X.astype(np.float64).T))[::-1]
    np.testing.assert_allclose(found.variances.numpy(), right, rtol=1e-6)
