"""The conditional variational autoencoder: identities, exact linear models, labels and vectors of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import is_classifier
from sklearn.datasets import load_digits
from torch import nn

import benthic
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("N-01")
RNG = np.random.default_rng(0)
LABELS = RNG.choice(["ant", "bee", "cow"], size=240, p=[0.5, 0.3, 0.2])
CENTERS = {"ant": [0.0, 0.0, 0.0], "bee": [4.0, 0.0, -4.0], "cow": [0.0, 5.0, 2.0]}
X = np.array([CENTERS[name] for name in LABELS]) + RNG.normal(size=(240, 1)) + 0.3 * RNG.normal(size=(240, 3))
SMALL = {"hidden_layer_sizes": (16,), "random_state": 0}


@pytest.fixture(scope="module")
def model():
    settings = {"epochs": 60, "lr": 0.01}
    return benthic.ConditionalVAE(1, kl_warmup=0.3, trainer=settings, **SMALL).fit(X, LABELS)


# -- identities --------------------------------------------------------------------------------------------


def test_without_weights_on_the_condition_it_is_a_vae():
    plain = benthic.VAE(2, trainer={"steps": 40}, **SMALL).fit(X)
    ours = benthic.ConditionalVAE(2, trainer={"steps": 1}, **SMALL).fit(X, LABELS)
    weights = dict(plain.network_.state_dict())
    for key in ("encoder.0.weight", "decoder.0.weight"):
        zeros = torch.zeros(weights[key].shape[0], 3)
        weights[key] = torch.cat([weights[key], zeros], 1)
    ours.network_.load_state_dict(weights)
    for y in ("ant", "cow"):
        for method in ("elbo", "importance(8)"):
            there, here = plain.likelihood(X, method), ours.likelihood(X, method, given=y)
            np.testing.assert_allclose(here.value, there.value, rtol=1e-12)
        np.testing.assert_allclose(ours.encode(X, given=y), plain.encode(X), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.sample(9, given=y, seed=2), plain.sample(9, seed=2), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.likelihood(X).value, plain.likelihood(X).value, rtol=1e-12)
    np.testing.assert_allclose(ours.predict_proba(X), np.tile(ours.class_prior_, (len(X), 1)), rtol=1e-9)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    losses = []
    for network, c in ((plain.network_, None), (ours.network_, torch.eye(3)[[0, 1, 2, 0]])):
        torch.manual_seed(0)
        losses.append(network(x, 1.0, c))
    torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-6)


def linear_model():
    """x = W z + U y + b + noise, so that x given y is normal; the encoder has the exact posterior mean."""
    made = benthic.ConditionalVAE(
        1, **{**SMALL, "hidden_layer_sizes": (), "activation": "identity"}, trainer={"steps": 1}
    )
    made.fit(X, LABELS)
    network = made.network_.double()
    torch.manual_seed(3)
    made.scales_ = type(made.scales_).identity(3)
    with torch.no_grad():
        decoder, encoder = network.decoder[0], network.encoder[0]
        nn.init.normal_(decoder.weight)
        nn.init.normal_(decoder.bias)
        W, U, b = decoder.weight[:, :1], decoder.weight[:, 1:], decoder.bias
        precision = torch.exp(-2 * network.observation.log_noise)
        S = 1 / (1 + (W[:, 0] ** 2 * precision).sum())
        gain = S * (W[:, 0] * precision)
        encoder.weight.zero_()
        encoder.weight[0, :3], encoder.weight[0, 3:], encoder.bias[0] = gain, -gain @ U, -gain @ b
        encoder.bias[1] = torch.log(1.3 * S)
    cov = (W @ W.T + torch.diag(1 / precision)).detach().numpy()
    return made, [(U[:, k] + b).detach().numpy() for k in range(3)], cov


def test_a_linear_model_has_the_likelihoods_and_labels_of_its_exact_law():
    made, means, cov = linear_model()
    rows = X[:60] / 3
    given = np.stack([multivariate_normal(m, cov).logpdf(rows) for m in means], 1)
    found = made.likelihood(rows, "importance(512)", given="bee")
    assert found.bound == "lower" and found.measure == "density"
    np.testing.assert_allclose(found.value, given[:, 1], atol=0.06)
    joint = given + np.log(made.class_prior_)
    both = made.likelihood(rows, "importance(512)")
    np.testing.assert_allclose(both.value, logsumexp(joint, 1), atol=0.06)
    elbo = made.likelihood(rows, "elbo(256)")
    assert elbo.bound == "lower" and elbo.mean() < logsumexp(joint, 1).mean()
    np.testing.assert_allclose(made.predict_proba(rows), np.exp(joint - logsumexp(joint, 1, keepdims=True)), atol=0.03)


def test_gaps_are_drawn_from_the_exact_conditional_with_and_without_a_label():
    made, means, cov = linear_model()
    row = np.array([[0.4, np.nan, np.nan]])
    gain = cov[1:, :1] / cov[0, 0]
    inner = cov[1:, 1:] - gain @ cov[:1, 1:]
    centers = [m[1:] + gain[:, 0] * (0.4 - m[0]) for m in means]
    drawn = made.sample(3000, given={"X": row, "y": "cow"}, seed=0)
    error = np.sqrt(np.diag(inner) / len(drawn))
    assert (np.abs(drawn[:, 1:].mean(0) - centers[2]) < 4 * error).all() and (drawn[:, 0] == 0.4).all()
    share = made.class_prior_ * np.array([multivariate_normal(m[0], cov[0, 0]).pdf(0.4) for m in means])
    share /= share.sum()
    mean = share @ np.array(centers)
    spread = np.diag(inner) + share @ (np.array(centers) - mean) ** 2
    free = made.sample(3000, given=row, seed=0)
    assert (np.abs(free[:, 1:].mean(0) - mean) < 4.5 * np.sqrt(spread / 3000)).all()
    np.testing.assert_allclose(made.impute(np.repeat(row, 200, 0))[:, 1:].mean(0), mean, atol=0.1)
    np.testing.assert_allclose(made.impute(np.repeat(row, 200, 0), given="cow")[:, 1:].mean(0), centers[2], atol=0.1)


# -- labels ------------------------------------------------------------------------------------------------


def test_samples_follow_their_label(model):
    for name, center in CENTERS.items():
        drawn = model.sample(400, given=name, seed=0)
        assert np.abs(drawn.mean(0) - center).max() < 0.8
        assert (drawn == model.sample(400, given=np.array([name]), seed=0)).all()
    many = model.sample(240, given=LABELS, seed=0)
    assert np.abs(many - np.array([CENTERS[name] for name in LABELS])).mean() < 1.5
    free = model.predict(model.sample(2000, seed=1))
    shares = [np.mean(free == name) for name in model.classes_]
    np.testing.assert_allclose(shares, model.class_prior_, atol=0.05)


def test_it_classifies(model):
    assert is_classifier(model) and list(model.classes_) == ["ant", "bee", "cow"]
    assert model.score(X, LABELS) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert model.score(X) == pytest.approx(model.likelihood(X).mean())
    given = model.likelihood(X, given=LABELS)
    assert given.mean() > model.likelihood(X).mean() > given.mean() + np.log(model.class_prior_).min()


def test_codes_are_those_of_the_most_probable_label(model):
    best = model.predict(X)
    np.testing.assert_allclose(model.encode(X), model.encode(X, given=best))
    np.testing.assert_allclose(model.reconstruct(X), model.decode(model.encode(X), given=best))
    codes = model.encode(X[:5])
    by_label = np.stack([model.decode(codes, given=name) for name in model.classes_])
    np.testing.assert_allclose(model.decode(codes), np.einsum("k,knd->nd", model.class_prior_, by_label), rtol=1e-6)


@pytest.mark.parametrize(
    ("y", "one"),
    [
        (LABELS == "bee", True),
        (np.unique(LABELS, return_inverse=True)[1] - 1, -1),
        (LABELS.astype(object), "bee"),
        (pd.Series(pd.Categorical(LABELS)), "cow"),
        (torch.tensor(np.unique(LABELS, return_inverse=True)[1]), 2),
    ],
    ids=["bools", "integers", "objects", "categories", "tensor"],
)
def test_labels_of_every_kind(y, one, tmp_path):
    made = benthic.ConditionalVAE(1, trainer={"steps": 5}, **SMALL).fit(X, y)
    assert made.sample(2, given=one).shape == (2, 3)
    assert set(made.predict(X).tolist()) <= set(made.classes_.tolist())
    loaded = benthic.load(made.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.sample(3, given=one, seed=0), made.sample(3, given=one, seed=0))
    np.testing.assert_array_equal(loaded.predict(X), made.predict(X))


def test_wrong_labels(model):
    with pytest.raises(
        InvalidInput, match="sample: given has the label 'dog', which fit has not seen; it knows 'ant', 'b"
    ):
        model.sample(2, given="dog")
    with pytest.raises(InvalidInput, match="likelihood: given has the label 3"):
        model.likelihood(X[:1], given=3)
    with pytest.raises(InvalidInput, match="sample: given has 2 labels for 5 rows; pass one or 5"):
        model.sample(5, given=["ant", "bee"])
    with pytest.raises(InvalidInput, match="use 'y' for the condition"):
        model.sample(5, given={"label": "ant"})
    with pytest.raises(ValueError, match="requires y to be passed"):
        benthic.ConditionalVAE().fit(X)
    holed = LABELS.astype(object)
    holed[3] = None
    with pytest.raises(InvalidInput, match="ConditionalVAE.fit: .*1 of .* labels are missing"):
        benthic.ConditionalVAE().fit(X, holed)
    with pytest.raises(InvalidInput, match="condition='vectors' takes rows"):
        benthic.ConditionalVAE().fit(X, X)
    with pytest.raises(InvalidInput, match="condition is 'numbers'; use"):
        benthic.ConditionalVAE(condition="numbers").fit(X, LABELS)
    with pytest.raises(InvalidInput, match="prior='vamp' has pseudo-inputs without"):
        benthic.ConditionalVAE(prior="vamp").fit(X, LABELS)


# -- vectors and pictures ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moving():
    """Points around (3 sin c, c), where c is given."""
    c = RNG.uniform(-2, 2, size=(400, 1))
    rows = np.hstack([3 * np.sin(c), c]) + 0.2 * RNG.normal(size=(400, 2))
    settings = {"epochs": 60, "lr": 0.01}
    made = benthic.ConditionalVAE(1, condition="vectors", hidden_layer_sizes=(32,), trainer=settings, random_state=0)
    return made.fit(rows, c), rows, c


def test_samples_follow_their_vector(moving):
    made, rows, c = moving
    for value in (-1.5, 0.0, 1.5):
        drawn = made.sample(500, given=[value], seed=0)
        np.testing.assert_allclose(drawn.mean(0), [3 * np.sin(value), value], atol=0.75)
    assert made.sample(400, given=c, seed=0).shape == (400, 2)
    shuffled = made.likelihood(rows, given=c[::-1].copy()).mean()
    assert made.score(rows, c) > shuffled + 2
    assert made.score(rows, c) == pytest.approx(made.likelihood(rows, given=c).mean())
    row = np.array([[np.nan, 1.0]])
    drawn = made.sample(300, given={"X": row, "y": [1.0]}, seed=0)
    assert abs(drawn[:, 0].mean() - 3 * np.sin(1.0)) < 0.3 and (drawn[:, 1] == 1.0).all()
    assert np.isfinite(made.impute(row, given=[1.0])).all()
    assert made.reconstruct(rows, given=c).shape == rows.shape


def test_vectors_cannot_be_guessed(moving):
    made, rows, _ = moving
    assert not is_classifier(made) and not hasattr(made, "predict")
    for verb in ("likelihood", "encode", "transform", "reconstruct", "impute"):
        holed = np.where(np.arange(2) == 1, np.nan, rows) if verb == "impute" else rows
        with pytest.raises(InvalidInput, match="needs them here too"):
            getattr(made, verb)(holed)
    with pytest.raises(InvalidInput, match=r"ConditionalVAE.sample: .*given=vectors"):
        made.sample(3)
    with pytest.raises(InvalidInput, match="vectors of shape \\(3, 2\\); the model was fitted on 1 numbers"):
        made.sample(3, given=np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match="NaN or infinity among the conditions"):
        made.sample(3, given=[np.nan])


def test_pictures_given_pictures(tmp_path):
    """The lower half of a digit given its upper half; conditions may be pictures or flat."""
    images = load_digits().images[:150, None] / 16.0
    top, bottom = images[:, :, :4], images[:, :, 4:]
    made = benthic.ConditionalVAE(2, condition="vectors", trainer={"steps": 30}, **SMALL).fit(bottom, top)
    drawn = made.sample(3, given=top[0], seed=0)
    assert drawn.shape == (3, 1, 4, 8)
    np.testing.assert_array_equal(drawn, made.sample(3, given=top[0].ravel(), seed=0))
    assert made.sample(150, given=top).shape == bottom.shape
    loaded = benthic.load(made.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(loaded.sample(2, given=top[1], seed=1), made.sample(2, given=top[1], seed=1))


def test_convolutions_see_the_label():
    images = load_digits().images[:200, None] / 16.0
    y = load_digits().target[:200]
    made = benthic.ConditionalVAE(2, channels=(8,), trainer={"epochs": 15, "lr": 5e-3}, random_state=0).fit(images, y)
    assert made.sample(4, given=[0, 1, 2, 3]).shape == (4, 1, 8, 8)
    zero, one = (made.sample(60, given=k, seed=0).mean(0) for k in (0, 1))
    truth = images[y == 0].mean(0)
    assert np.square(zero - truth).mean() < np.square(one - truth).mean()
