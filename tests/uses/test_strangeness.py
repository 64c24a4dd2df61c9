"""``anomaly`` in three ways, against closed forms of Gaussian models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import benthic
from benthic.base.errors import InvalidInput
from benthic.uses import anomaly

pytestmark = pytest.mark.spec("I-03")

RNG = np.random.default_rng(0)
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 3.0]])
X = RNG.normal(size=(2000, 3)) @ MIX.T + np.array([1.0, -2.0, 5.0])


@pytest.fixture(scope="module")
def gaussian():
    return benthic.GaussianMixture(1, reg_covar=0.0).fit(X)


def entropy(covariance: np.ndarray) -> float:
    return 0.5 * np.linalg.slogdet(2 * np.pi * np.e * np.atleast_2d(covariance))[1]


# the mean of 1000 draws of a quadratic form in d normals strays by sqrt(d / 2 / 1000) nats; four of those
def reach(d: int) -> float:
    return 4 * np.sqrt(d / 2 / 1000)


def test_log_prob_is_the_default(gaussian):
    np.testing.assert_allclose(gaussian.anomaly(X[:5]), -gaussian.log_prob(X[:5]))
    np.testing.assert_allclose(gaussian.anomaly(X[:5], kind="log_prob"), anomaly(gaussian, X[:5]))


def test_typicality_is_the_distance_from_the_entropy(gaussian):
    H = entropy(gaussian.covariances_[0])
    rows = np.vstack([X[:20], gaussian.means_])
    found = gaussian.anomaly(rows, kind="typicality")
    np.testing.assert_allclose(found, np.abs(-gaussian.log_prob(rows) - H), atol=reach(3))
    assert found[-1] > np.median(found[:-1])  # the center is the most probable point, and no typical one
    assert gaussian.anomaly(rows).argmin() == len(rows) - 1


def test_typicality_by_reference_rows_is_exact(gaussian):
    H = -gaussian.log_prob(X).mean()
    found = gaussian.anomaly(X[:7], kind="typicality", reference=X)
    np.testing.assert_allclose(found, np.abs(-gaussian.log_prob(X[:7]) - H), rtol=1e-10)


def test_typicality_of_a_row_with_gaps_is_that_of_the_marginal(gaussian):
    holed = X[:6].copy()
    holed[:3, 0] = np.nan
    holed[3, 1:] = np.nan
    found = gaussian.anomaly(holed, kind="typicality")
    cov, kept = gaussian.covariances_[0], [[1, 2]] * 3 + [[0]] + [[0, 1, 2]] * 2
    levels = np.array([entropy(cov[np.ix_(k, k)]) for k in kept])
    np.testing.assert_allclose(found, np.abs(-gaussian.log_prob(holed) - levels), atol=reach(3))


def test_reconstruction_of_a_density_is_the_error_of_its_regressions(gaussian):
    """Hiding a column of a Gaussian and filling it is linear regression on the others."""
    mean, precision = gaussian.means_[0], np.linalg.inv(gaussian.covariances_[0])
    residuals = (X[:9] - mean) @ precision / np.diag(precision)
    found = gaussian.anomaly(X[:9], kind="reconstruction", reference=X)
    np.testing.assert_allclose(found, ((residuals / X.std(0)) ** 2).mean(1), rtol=1e-8)


def test_reconstruction_of_an_encoder_is_what_its_code_loses():
    model = benthic.PCA(n_components=1).fit(X)
    lost = (X - model.reconstruct(X)) / X.std(0)
    np.testing.assert_allclose(model.anomaly(X, kind="reconstruction", reference=X), (lost**2).mean(1), rtol=1e-8)


def test_a_whole_code_falls_back_to_hiding_columns(gaussian):
    """With all components the code loses nothing; the columns are hidden in turn, as for the same Gaussian."""
    model = benthic.PCA(n_components=3).fit(X)
    found = model.anomaly(X[:9], kind="reconstruction", reference=X)
    np.testing.assert_allclose(found, gaussian.anomaly(X[:9], kind="reconstruction", reference=X), rtol=1e-2)


@pytest.mark.parametrize(
    "name", ["VAE", "GAN", "DDPM", "NormalizingFlow", "EnergyModel", "GaussianNB", "GaussianMixture"]
)
@pytest.mark.parametrize("kind", ["typicality", "reconstruction"])
def test_every_family_finds_far_rows_stranger(name, kind):
    model = benthic.catalogue()[name].quick()
    known = model.get_params()
    if "random_state" in known:
        model.set_params(random_state=0)
    rows = X[:200]
    model.fit(rows, rows[:, 0] > 1) if name == "GaussianNB" else model.fit(rows)
    near, far = model.anomaly(rows[:8], kind=kind), model.anomaly(rows[:8] + 40.0, kind=kind)
    assert near.shape == (8,) and np.isfinite(near).all() and (near >= 0).all()
    assert np.median(far) > 2 * np.median(near)


def test_conditions_have_levels_of_their_own():
    rows = np.vstack([RNG.normal(size=(300, 2)), 9 + 0.01 * RNG.normal(size=(300, 2))])
    labels = np.repeat(["wide", "narrow"], 300)
    trainer = {"steps": 60, "lr": 0.02}
    model = benthic.NormalizingFlow(
        condition="labels", hidden_layer_sizes=(16,), transforms=2, bins=4, trainer=trainer, random_state=0
    ).fit(rows, labels)
    some = np.array([0, 1, 300, 301])
    found = model.anomaly(rows[some], given=labels[some], kind="typicality")
    each = [model.anomaly(rows[[i]], given=labels[i], kind="typicality")[0] for i in some]
    np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-4)
    with pytest.raises(InvalidInput, match="reference rows carry no condition"):
        model.anomaly(rows[some], given=labels[some], kind="typicality", reference=rows)


def test_frames_with_categories_and_gaps():
    frame = pd.DataFrame({"a": X[:300, 0], "b": X[:300, 1], "c": np.where(X[:300, 0] > 1, "high", "low")})
    model = benthic.VAE(latent_dim=2, hidden_layer_sizes=(16,), trainer={"steps": 60, "lr": 0.01}, random_state=0)
    model.fit(frame)
    some = frame.iloc[:6].copy()
    some.loc[some.index[0], "a"] = np.nan
    some.loc[some.index[1], "c"] = None
    for kind in ("log_prob", "typicality", "reconstruction"):
        found = model.anomaly(some, kind=kind)
        assert found.shape == (6,) and np.isfinite(found).all()


def test_sequences_have_a_level_for_each_length():
    """A chain of fair coins carries log 2 a step, whatever it says: nothing is untypical."""
    coins = [RNG.integers(0, 2, size=40) for _ in range(200)]
    model = benthic.MarkovModel(order=1).fit(coins)
    short, long = [0] * 5, [1, 0] * 20
    found = model.anomaly([np.array(short), np.array(long)], kind="typicality")
    assert (found < 0.1 * np.array([5, 40]) * np.log(2)).all()
    said = model.anomaly([np.array(short), np.array(long)])
    np.testing.assert_allclose(said, np.array([5, 40]) * np.log(2), rtol=0.1)
    with pytest.raises(InvalidInput, match="rebuilds nothing"):
        model.anomaly([np.array(short)], kind="reconstruction")


def test_tensors_stay_tensors(gaussian):
    rows = torch.as_tensor(X[:4], dtype=torch.float32)
    for kind in ("typicality", "reconstruction"):
        found = gaussian.anomaly(rows, kind=kind)
        assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
        np.testing.assert_allclose(found, gaussian.anomaly(X[:4], kind=kind), rtol=1e-3, atol=1e-4)


def test_bad_kinds(gaussian):
    with pytest.raises(InvalidInput, match=r"GaussianMixture.anomaly: kind is 'typical'; .*did you mean 'typicality'"):
        gaussian.anomaly(X, kind="typical")
    model = benthic.catalogue()["Autoencoder"].quick().fit(X[:100])
    np.testing.assert_allclose(model.anomaly(X[:5], kind="reconstruction"), model.anomaly(X[:5]))
    np.testing.assert_allclose(anomaly(model, X[:5]), model.anomaly(X[:5]))
    with pytest.raises(InvalidInput, match="has no likelihood"):
        model.anomaly(X[:5], kind="log_prob")
    with pytest.raises(InvalidInput, match="has no likelihood"):
        anomaly(model, X[:5], "typicality")
