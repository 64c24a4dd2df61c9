"""The autoencoder: what it must find, and what each of its kinds is for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from torch import nn

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.autoencoder.corruption import corruption_of, gaussian, masking, salt_and_pepper
from benthic.generative.autoencoder.network import kl_to_target, squared_slope
from benthic.metrics.judging import judge

pytestmark = pytest.mark.spec("M-01")
DIGITS = load_digits().data[:600] / 16.0
RNG = np.random.default_rng(0)
PLANE = RNG.normal(size=(400, 2)) @ RNG.normal(size=(2, 6)) + 0.2 * RNG.normal(size=(400, 6))


def model_of(latent_dim=2, steps=300, **params):
    trainer = {"steps": steps, "lr": 0.01, "schedule": "cosine", "batch_size": 64, **params.pop("trainer", {})}
    return benthic.Autoencoder(
        latent_dim, **{"hidden_layer_sizes": (32,), "random_state": 0, **params}, trainer=trainer
    )


@pytest.mark.parametrize("tied", [False, True])
def test_a_linear_autoencoder_spans_the_principal_subspace(tied):
    model = model_of(2, 1500, hidden_layer_sizes=(), tied=tied, trainer={"batch_size": 400}).fit(PLANE)
    rows = (PLANE - PLANE.mean(0)) / PLANE.std(0)
    pca = PCA(2).fit(rows)
    images = model.decode(np.eye(2)) - model.decode(np.zeros((2, 2)))
    angles = subspace_angles((images / PLANE.std(0)).T, pca.components_.T)
    assert np.degrees(angles).max() < 2.5  # full batches and a rate that falls to zero: 0.2 ± 0.3 over seeds
    best = np.square(pca.inverse_transform(pca.transform(rows)) - rows).mean()
    assert -model.score(PLANE) == pytest.approx(best, rel=1e-2)


def test_tied_weights_are_one_parameter():
    tied = model_of(2, 20, tied=True).fit(PLANE)
    names = {name: tuple(p.shape) for name, p in tied.network_.named_parameters()}
    matrices = [name for name, shape in names.items() if len(shape) == 2]
    assert matrices == ["encoder.0.weight", "encoder.2.weight"]
    assert sum(np.prod(shape) for shape in names.values()) == 6 * 32 + 32 * 2 + (32 + 2) + (32 + 6)
    with torch.no_grad():  # what moves the encoder moves the decoder
        before = tied.decode(np.ones((1, 2)))
        tied.network_.encoder[0].weight.mul_(2.0)
        assert not np.allclose(tied.decode(np.ones((1, 2))), before)


def test_tied_weights_are_learned_by_both_uses():
    network = model_of(2, 1, tied=True).fit(PLANE).network_
    x, z = torch.randn(5, 6), torch.randn(5, 2)
    (of_decoder,) = torch.autograd.grad(network.outputs(z).sum(), network.encoder[0].weight)
    (of_encoder,) = torch.autograd.grad(network.encode(x).sum(), network.encoder[0].weight)
    assert of_decoder.abs().sum() > 0 and of_encoder.abs().sum() > 0


def test_kl_sparsity_reaches_its_target():
    model = model_of(30, 400, sparsity="kl", sparsity_weight=5.0, target_activation=0.1).fit(DIGITS)
    codes = model.encode(DIGITS)
    assert codes.min() >= 0 and codes.max() <= 1
    np.testing.assert_allclose(codes.mean(0), 0.1, atol=0.03)
    free = model_of(30, 400, code_activation="sigmoid").fit(DIGITS).encode(DIGITS)
    assert np.abs(free.mean(0) - 0.1).mean() > 5 * np.abs(codes.mean(0) - 0.1).mean()


def test_l1_sparsity_makes_small_codes():
    plain, sparse = (
        model_of(20, 400, **more).fit(DIGITS).encode(DIGITS)
        for more in ({}, {"sparsity": "l1", "sparsity_weight": 2.0})
    )
    assert np.abs(sparse).mean() < 0.3 * np.abs(plain).mean()


def test_the_penalty_is_the_divergence_of_two_coins():
    p, q = torch.distributions.Bernoulli(0.2), torch.distributions.Bernoulli(torch.tensor([0.5, 0.7]))
    truth = torch.distributions.kl_divergence(p, q).sum()
    torch.testing.assert_close(kl_to_target(torch.tensor([0.5, 0.7]), 0.2), truth)


@pytest.mark.parametrize(
    ("corruption", "level"), [("gaussian", 1.0), ("masking", 0.4), ("salt_and_pepper", 0.3)], ids=lambda v: str(v)
)
def test_denoising_beats_plain_on_noisy_rows(corruption, level):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 10))
    train, test = X[:400], X[400:]
    clean = (test - train.mean(0)) / train.std(0)
    spoil = corruption_of(corruption, level, torch.tensor(clean), benthic.Standardizer.identity(10), None)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        noisy = spoil(torch.tensor(clean)).numpy() * train.std(0) + train.mean(0)
    errors = []
    for setting in (None, corruption):
        model = model_of(8, 300, corruption=setting, corruption_level=level).fit(train)
        errors.append(np.square((model.reconstruct(noisy) - test) / train.std(0)).mean())
    assert errors[1] < 0.8 * errors[0]


def test_corruptions_do_what_they_say():
    torch.manual_seed(0)
    x = torch.randn(20000, 2)
    assert float((gaussian(x, 0.5) - x).std()) == pytest.approx(0.5, abs=0.01)
    gone = masking(x, 0.25) == 0
    assert float(gone.double().mean()) == pytest.approx(0.25, abs=0.01)
    low, high = torch.tensor([-9.0, -8.0]), torch.tensor([9.0, 8.0])
    spoiled = salt_and_pepper(x, 0.4, low, high)
    assert float((spoiled == high).double().mean()) == pytest.approx(0.2, abs=0.01)
    assert float((spoiled == low).double().mean()) == pytest.approx(0.2, abs=0.01)


def test_a_function_spoils_examples_in_their_own_units_and_shape():
    seen = []

    def blacken(pictures):
        seen.append((tuple(pictures.shape[1:]), float(pictures.min()), float(pictures.max())))
        return pictures.masked_fill(torch.rand_like(pictures) < 0.5, 0.0)

    images = load_digits().images[:64, None]
    model = model_of(4, 3, corruption=blacken, channels=(4,)).fit(images)
    assert seen[0] == ((1, 8, 8), pytest.approx(0, abs=1e-4), pytest.approx(16, abs=1e-4))
    assert model.reconstruct(images).shape == images.shape
    with pytest.raises(ValueError, match="Autoencoder.fit: corruption must return a tensor"):
        model_of(4, 3, corruption=lambda x: x[:, :, :4]).fit(images)


def test_contraction_flattens_the_encoder():
    def slope(model):
        rows = torch.tensor((PLANE - PLANE.mean(0)) / PLANE.std(0)).float()
        jacobian = torch.func.vmap(torch.func.jacrev(lambda x: model.network_.encoder(x)))(rows)
        return float(jacobian.detach().square().sum((1, 2)).mean())

    plain, flat = (model_of(2, 300, contraction=weight).fit(PLANE) for weight in (0.0, 1.0))
    assert slope(flat) < 0.5 * slope(plain)


def test_the_estimate_of_the_squared_slope_is_unbiased():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    row = torch.randn(1, 3, dtype=torch.float64)
    truth = torch.func.jacrev(lambda x: net(x))(row[0]).detach().square().sum()
    x = row.expand(20000, 3).clone().requires_grad_()
    found = squared_slope(net(x), x).detach()
    assert float(found.mean()) == pytest.approx(float(truth), abs=4 * float(found.std()) / 20000**0.5)


def test_outliers_rank_highest():
    model = model_of(2, 500).fit(PLANE)
    strange = PLANE[:40] + np.random.default_rng(2).normal(size=(40, 6)) * 2.0 * PLANE.std(0)
    scores = model.anomaly(np.concatenate([PLANE, strange]))
    ranks = np.argsort(np.argsort(scores))
    auc = (ranks[400:].mean() - 19.5) / 400
    assert auc > 0.97
    rebuilt = np.square((model.reconstruct(PLANE) - PLANE) / PLANE.std(0)).mean(1)
    np.testing.assert_allclose(scores[:400], rebuilt, rtol=1e-6)
    assert model.score(PLANE) == pytest.approx(-rebuilt.mean())


def test_pictures_go_through_convolutions():
    images = load_digits().images[:256, None] / 16.0
    model = model_of(8, 200, decoder="bernoulli", channels=(16,)).fit(images)
    assert "ConvEncoder" in repr(model.network_)
    assert model.encode(images).shape == (256, 8) and model.decode(np.zeros((3, 8))).shape == (3, 1, 8, 8)
    error = np.square(model.reconstruct(images) - images).mean()
    assert error < 0.4 * images.var(0).mean()
    with pytest.raises(ValueError, match="tied weights are those of fully connected layers"):
        model_of(8, 2, tied=True).fit(images)


def test_modules_of_the_user(tmp_path):
    pair = (nn.Sequential(nn.Linear(6, 9), nn.Tanh()), nn.Linear(2, 6))
    model = model_of(2, 300, network=pair).fit(PLANE)
    assert -model.score(PLANE) < 0.2
    path = model.save(tmp_path / "m.safetensors", leave_out=["network.0", "network.1"])
    again = benthic.load(path, modules={"network.0": pair[0], "network.1": pair[1]})
    np.testing.assert_array_equal(again.encode(PLANE), model.encode(PLANE))
    with pytest.raises(ValueError, match="the decoder gives 5 numbers for each code; this model needs 6"):
        model_of(2, 2, network=(nn.Linear(6, 9), nn.Linear(2, 5))).fit(PLANE)


def test_frames_of_mixed_columns_come_back():
    rng = np.random.default_rng(0)
    side = rng.random(300) < 0.5
    frame = pd.DataFrame(
        {
            "height": np.where(side, 1.8, 1.6) + 0.02 * rng.normal(size=300),
            "city": pd.Categorical(np.where(side, "Oslo", "Lima")),
            "member": side,
        }
    )
    model = model_of(2, 300).fit(frame)
    out = model.reconstruct(frame)
    assert (out.dtypes == frame.dtypes).all()
    assert (out["city"] == frame["city"]).mean() > 0.99 and (out["member"] == side).mean() > 0.99
    strange = frame.head(50).assign(member=~frame["member"].head(50))
    assert model.anomaly(strange).mean() > 5 * model.anomaly(frame).mean()


def test_missing_entries_are_neither_seen_nor_counted():
    holed = PLANE.copy()
    gaps = np.random.default_rng(3).random(PLANE.shape) < 0.2
    holed[gaps] = np.nan
    model = model_of(2, 800).fit(holed)
    full = model.reconstruct(holed)
    assert np.isfinite(full).all()
    assert np.square(full - PLANE)[gaps].mean() < 0.5 * np.square(PLANE - PLANE.mean(0))[gaps].mean()
    scores, error = model.anomaly(holed), np.square((full - holed) / np.nanstd(holed, 0))
    np.testing.assert_allclose(scores, np.nanmean(error, 1), rtol=1e-5)


def test_it_is_judged_by_what_it_rebuilds():
    model = model_of(2, 100).fit(PLANE)
    found = judge(model, PLANE)
    assert found["reconstruction_error"] == pytest.approx(np.square(model.reconstruct(PLANE) - PLANE).mean())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"sparsity": "l2"}, "sparsity is 'l2'; use 'l1', 'kl' or None"),
        ({"sparsity": "kl", "code_activation": "relu"}, "needs codes between 0 and 1"),
        ({"target_activation": 1.0}, "target_activation is 1.0"),
        ({"corruption": "mask"}, "did you mean 'masking'"),
        ({"corruption": "masking", "corruption_level": 1.0}, "corruption_level is 1.0"),
        ({"contraction": -1.0}, "contraction -1.0"),
        ({"latent_dim": 0}, "latent_dim is 0"),
        ({"decoder": "logistic"}, "decoder 'logistic' is unknown"),
        ({"decoder": "bernoulli"}, "decoder='bernoulli'"),
        ({"activation": "relu6"}, "did you mean 'relu'"),
        ({"network": "conv"}, "network='conv' needs pictures"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(InvalidInput, match=f"Autoencoder.fit: .*{words}"):
        benthic.Autoencoder(**{"latent_dim": 2, **params}).fit(PLANE)


def test_a_code_that_can_copy_the_data_is_warned_of():
    with pytest.warns(UserWarning, match="a code as large as the data can copy them"):
        model_of(6, 2).fit(PLANE)


def test_batches_with_penalties_train_like_parts_of_them():
    whole = model_of(2, 5, sparsity="l1").fit(PLANE)
    parts = model_of(2, 5, sparsity="l1", trainer={"accumulate": 4}).fit(PLANE)
    np.testing.assert_allclose(parts.encode(PLANE), whole.encode(PLANE), rtol=1e-3, atol=1e-4)
