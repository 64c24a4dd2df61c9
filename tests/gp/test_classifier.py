"""Classification: Laplace's method against scikit-learn, differences and quadrature; minibatches; bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process import kernels as peers

import benthic
from benthic.base.errors import InvalidInput
from benthic.gp import GaussianProcessClassifier, laplace_mode
from benthic.gp.laplace import LaplaceEvidence, expected_sigmoid
from benthic.kernels import RBF, Matern, White

X, LABELS = make_moons(80, noise=0.25, random_state=0)
ROWS, TARGETS = torch.tensor(X), torch.tensor(LABELS, dtype=torch.float64)
NEW = np.random.default_rng(1).uniform(-1.5, 2.5, size=(40, 2))
PAIRS = [
    (3.0 * RBF(0.9), peers.ConstantKernel(3.0) * peers.RBF(0.9)),
    (
        2.0 * Matern(1.5, torch.tensor([0.5, 1.5], dtype=torch.float64)),
        peers.ConstantKernel(2.0) * peers.Matern([0.5, 1.5], nu=1.5),
    ),
]


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(("kernel", "peer"), PAIRS, ids=["rbf", "matern ard"])
def test_evidence_and_gradient_agree_with_scikit_learn(kernel, peer):
    model = Peer(peer, optimizer=None).fit(X, LABELS).base_estimator_
    value, gradient = model.log_marginal_likelihood(peer.theta, eval_gradient=True)
    mine, slope = LaplaceEvidence(kernel, ROWS, TARGETS).value_and_gradient()
    assert mine == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(
        slope, gradient, rtol=1e-4, atol=1e-5
    )  # their Newton iteration stops at 1e-10 of the value


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(("kernel", "peer"), PAIRS, ids=["rbf", "matern ard"])
def test_gradient_agrees_with_differences(kernel, peer):
    evidence = LaplaceEvidence(kernel, ROWS, TARGETS)
    theta = kernel.theta + 0.2
    _, slope = evidence.value_and_gradient(theta)
    for i in range(len(theta)):
        step = torch.zeros_like(theta)
        step[i] = 1e-4
        ends = [evidence.value_and_gradient(theta + side * step, gradient=False)[0] for side in (1, -1)]
        assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5, abs=1e-6)


def test_the_mode_is_a_stationary_point():
    kernel = 3.0 * RBF(0.9)
    mode = laplace_mode(kernel, ROWS, TARGETS)
    # at the mode f = K (y - p)
    torch.testing.assert_close(kernel(ROWS) @ mode.slope, mode.latent, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(mode.slope, TARGETS - torch.sigmoid(mode.latent))


def test_the_average_of_the_logistic_agrees_with_quadrature():
    for mean, variance in ((0.0, 1.0), (2.0, 0.01), (-3.0, 25.0), (1.0, 400.0)):
        scale = variance**0.5
        expected = quad(lambda z, m=mean, s=scale: norm.pdf(z) / (1 + np.exp(-(m + s * z))), -9, 9, limit=400)[0]
        found = expected_sigmoid(torch.tensor([mean]).double(), torch.tensor([variance]).double())
        assert float(found[0]) == pytest.approx(expected, abs=1e-8)


@pytest.mark.spec("F-07")
def test_probabilities_agree_with_scikit_learn():
    mine = GaussianProcessClassifier(3.0 * RBF(0.9), optimizer=None).fit(X, LABELS)
    peer = Peer(peers.ConstantKernel(3.0) * peers.RBF(0.9), optimizer=None).fit(X, LABELS)
    # theirs replaces the logistic by five error functions
    np.testing.assert_allclose(mine.predict_proba(NEW), peer.predict_proba(NEW), atol=2e-3)
    mean, variance = mine.latent_mean_and_variance(NEW)
    base = peer.base_estimator_
    cross = base.kernel_(base.X_train_, NEW)
    np.testing.assert_allclose(mean, cross.T @ (base.y_train_ - base.pi_), atol=1e-5)
    half = np.linalg.solve(base.L_, base.W_sr_[:, None] * cross)
    np.testing.assert_allclose(variance, 3.0 - (half**2).sum(0), atol=1e-5)


@pytest.mark.spec("F-07")
def test_the_same_optimum_as_scikit_learn():
    mine = GaussianProcessClassifier(1.0 * RBF(1.0), tol=1e-4).fit(X, LABELS)
    peer = Peer(peers.ConstantKernel(1.0) * peers.RBF(1.0)).fit(X, LABELS)
    assert mine.log_marginal_likelihood_value_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-4)
    np.testing.assert_allclose(mine.predict_proba(NEW), peer.predict_proba(NEW), atol=5e-3)


def test_log_marginal_likelihood_at_other_parameters():
    rows, labels = load_iris(return_X_y=True)
    mine = GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None).fit(rows, labels)
    peer = Peer(peers.ConstantKernel(1.0) * peers.RBF(1.0), optimizer=None).fit(rows, labels)
    theta = np.array([0.5, 0.2])
    assert mine.log_marginal_likelihood(theta) == pytest.approx(peer.log_marginal_likelihood(theta), rel=1e-6)
    assert mine.log_marginal_likelihood() == pytest.approx(mine.log_marginal_likelihood_value_, rel=1e-9)
    with pytest.raises(InvalidInput, match="give theta"):
        mine.log_marginal_likelihood(eval_gradient=True)


@pytest.mark.spec("F-07")
def test_several_classes_one_against_the_rest():
    rows, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    mine = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(rows, names)
    peer = Peer(peers.ConstantKernel(1.0) * peers.RBF(1.0)).fit(rows, names)
    assert len(mine.kernel_) == 3
    # the first class is separable: its evidence rises towards the bound on the variance, which differs a little
    assert mine.log_marginal_likelihood_value_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=0.1)
    np.testing.assert_allclose(mine.predict_proba(rows), peer.predict_proba(rows), atol=0.02)
    assert (mine.predict(rows) == names).mean() > 0.96
    assert "kernel setosa" in mine.summary() and mine.plot().axes


@pytest.mark.spec("F-07")
@pytest.mark.parametrize("classes", [2, 3])
def test_minibatches_classify_as_well_as_laplace(classes, tmp_path):
    rows, labels = load_iris(return_X_y=True)
    rows, labels = (rows[50:], labels[50:]) if classes == 2 else (rows, labels)
    trainer = {"steps": 80, "lr": 0.05, "verbose": False}
    model = GaussianProcessClassifier(1.0 * RBF(1.0), inducing=30, trainer=trainer, random_state=0).fit(rows, labels)
    assert model.method_ == "svgp"
    close = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(rows, labels)
    assert model.score(rows, labels) > close.score(rows, labels) - 0.03
    if classes == 2:  # with three, classes share a kernel here and have their own there
        assert np.abs(model.predict_proba(rows) - close.predict_proba(rows)).mean() < 0.1
    loaded = benthic.load(model.save(tmp_path / "svgp.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert model.plot().axes


def test_pictures_of_the_plane():
    model = GaussianProcessClassifier().fit(X, LABELS)
    assert model.plot().axes[0].images and model.score(X, LABELS) > 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": White(1.0), "method": "svgp", "inducing": 5, "optimizer": None}, "noise alone"),
        ({"method": "laplace", "inducing": 5}, "inducing is for method 'svgp'"),
        ({"method": "ep"}, "method 'ep' is unknown"),
        ({"kernel": 3.0}, "use a kernel of benthic.kernels"),
        ({"max_iter": 0}, "max_iter is 0"),
    ],
)
def test_unusable_settings(settings, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        GaussianProcessClassifier(**settings).fit(X, LABELS)
    assert str(caught.value).startswith("GaussianProcessClassifier.fit: ")


def test_too_many_rows_name_the_memory(monkeypatch):
    monkeypatch.setattr("benthic.gp.estimator.memory_of", lambda device: 1e3)
    with pytest.raises(InvalidInput, match="inducing=500 for 'svgp'"):
        GaussianProcessClassifier(method="laplace").fit(X, LABELS)
