"""The variational autoencoder with clusters: its bound, its start, and what it finds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.vae.clusters import ClusterNetwork, start_clusters
from benthic.nets.mlp import MLP
from benthic.nets.observation import GaussianObservation
from benthic.nets.posterior import Diagonal
from benthic.nets.prior import MixturePrior
from benthic.training.callbacks import Callback

pytestmark = pytest.mark.spec("N-01")
RNG = np.random.default_rng(0)
CENTERS = np.array([[3.0, 3, 0, 3, 0], [-3, 0, 3, -3, 3], [0, -3, -3, 0, -3]])
LABELS = np.repeat([0, 1, 2], 80)
BLOBS = CENTERS[LABELS] + RNG.normal(size=(240, 5))


def accuracy(labels, found):
    """The share of rows whose cluster is that of their label, under the best pairing of the two."""
    table = np.zeros((found.max() + 1, labels.max() + 1))
    np.add.at(table, (found, labels), 1)
    return table[linear_sum_assignment(-table)].sum() / len(labels)


def model_of(n_clusters=3, steps=200, **params):
    trainer = {"steps": steps, "lr": 5e-3, **params.pop("trainer", {})}
    settings = {"latent_dim": 2, "hidden_layer_sizes": (32,), "pretrain_epochs": 15, "n_init": 3, "random_state": 0}
    return benthic.VaDE(n_clusters, **{**settings, **params}, trainer=trainer)


@pytest.fixture(scope="module")
def fitted():
    return model_of().fit(BLOBS)


def network_of(k=3, d=2, width=4):
    torch.manual_seed(0)
    law = GaussianObservation(width, 1.0)
    net = ClusterNetwork(MLP([width, 8, 2 * d]), MLP([d, 8, width]), law, d, prior=MixturePrior(d, k)).double()
    with torch.no_grad():
        for parameter in net.prior.parameters():
            parameter.normal_()
    return net


def test_the_divergence_in_closed_form_is_that_of_monte_carlo():
    net, draws = network_of(), 200_000
    q = Diagonal(torch.tensor([[0.3, -1.0]]).double(), torch.tensor([[-0.5, 0.4]]).double())
    noise = torch.randn(1, 2, dtype=torch.float64)
    gamma = net.responsibilities(q.place(noise))  # (1, k)
    z = q.place(torch.randn(draws, 2, dtype=torch.float64))
    terms = q.log_prob(z) + (gamma * (gamma.log() - net.prior.joint(z))).sum(-1)
    found = float(net.divergence(q, noise)[0].detach())
    error = float(terms.std().detach()) / draws**0.5
    assert found == pytest.approx(float(terms.mean().detach()), abs=4 * error)


def test_one_standard_cluster_is_the_usual_divergence():
    net = network_of(k=1)
    with torch.no_grad():
        for parameter in net.prior.parameters():
            parameter.zero_()
    q = Diagonal(torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64))
    torch.testing.assert_close(net.divergence(q, torch.randn(5, 2, dtype=torch.float64)), q.kl())


def test_the_bound_of_training_lies_below_the_one_that_sums_over_clusters():
    net = network_of().eval()
    x = torch.randn(6, 4, dtype=torch.float64)
    noise = torch.randn(4000, 6, 2, dtype=torch.float64)
    with torch.no_grad():
        q = net.posterior(x)
        ours = torch.stack([net.log_likelihood(x, q.place(e)) - net.divergence(q, e) for e in noise]).mean(0)
        summed = net.log_ratio(x, noise)
    spread = 4 * summed.std(0) / 4000**0.5
    assert (ours <= summed.mean(0) + spread).all()
    assert (summed.mean(0) <= torch.logsumexp(summed, 0) - np.log(4000)).all()


def test_the_start_turns_the_code_and_leaves_the_decoder_its_rows():
    net = network_of(k=3).eval()
    x = torch.tensor(BLOBS[:, :4])
    with torch.no_grad():
        codes, before = net.posterior(x).mean, net.mean(net.posterior(x).mean)
        start_clusters(net, codes, "mixture", 3, 0)
        q = net.posterior(x)
        torch.testing.assert_close(net.mean(q.mean), before, rtol=1e-8, atol=1e-8)
        gamma = net.responsibilities(q.mean)
        within = (torch.softmax(net.prior.logits, 0)[:, None] * net.prior.log_vars.exp()).sum(0)
    torch.testing.assert_close(within, torch.ones(2, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(q.log_var.exp(), torch.full_like(q.log_var, 0.1), rtol=1e-6, atol=1e-6)
    assert len(gamma.argmax(1).unique()) == 3


def test_it_finds_clusters(fitted):
    assert accuracy(LABELS, fitted.labels_) > 0.97
    np.testing.assert_array_equal(fitted.predict(BLOBS), fitted.labels_)
    shares = fitted.predict_proba(BLOBS)
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(shares.argmax(1), fitted.labels_)
    np.testing.assert_allclose(np.sort(fitted.weights_), 1 / 3, atol=0.1)


def test_samples_of_a_cluster_belong_to_it(fitted):
    for cluster in range(3):
        drawn = fitted.sample(200, given=cluster, seed=0)
        assert (fitted.predict(drawn) == cluster).mean() > 0.7
        truth = BLOBS[fitted.labels_ == cluster]
        assert np.abs(drawn.mean(0) - truth.mean(0)).max() < 1.6
    each = fitted.sample(3, given=[0, 1, 2], seed=1)
    np.testing.assert_array_equal(fitted.predict(each), [0, 1, 2])
    for wrong in (3, -1, [0, 1]):
        with pytest.raises(InvalidInput, match="VaDE.sample: given names"):
            fitted.sample(5, given=wrong)


def test_bounds_are_in_order(fitted):
    elbo = fitted.likelihood(BLOBS, "elbo(200)")
    tight = fitted.likelihood(BLOBS, "importance(200)")
    assert elbo.mean() < tight.mean()
    assert -fitted.history_[-1]["loss"] < tight.mean() + 5


def test_the_number_of_clusters_by_bic():
    model = model_of([1, 3, 8], 250).fit(BLOBS)
    assert model.n_clusters_ == 3 and model.bics_[3] == min(model.bics_.values())
    assert set(model.bics_) == {1, 3, 8} and model.predict_proba(BLOBS).shape == (240, 3)
    values = model.likelihood(BLOBS).value
    assert model.bic(BLOBS) == pytest.approx(-2 * values.sum() + (2 + 2 * 3 * 2) * np.log(240))
    assert model.bic(BLOBS) == pytest.approx(model.bics_[3], rel=1e-6)


def test_long_clusters_that_k_means_cuts_are_found():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4)) * np.array([6.0, 0.4, 0.4, 0.4])
    labels = np.arange(300) % 2
    X[:, 1] += 4.0 * labels
    turned = X @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    ours = [accuracy(labels, model_of(2, 100, random_state=seed).fit(turned).labels_) for seed in range(4)]
    theirs = KMeans(2, n_init=5, random_state=0).fit_predict(PCA(2).fit_transform(turned))
    assert np.mean(ours) > 0.65 > accuracy(labels, theirs) + 0.1  # most fits find them, one in six cuts them too


@pytest.mark.slow
def test_digits_are_found_better_than_by_k_means_on_principal_components():
    X, y = load_digits(return_X_y=True)
    settings = {"latent_dim": 10, "hidden_layer_sizes": (256, 128), "pretrain_epochs": 60, "n_init": 20}
    model = benthic.VaDE(
        10,
        **settings,
        start="map",
        guided_epochs=10,
        decoder="bernoulli",
        binarize=True,
        trainer={"epochs": 50, "lr": 3e-3, "batch_size": 64},
        random_state=0,
    ).fit(X / 16)
    theirs = KMeans(10, n_init=10, random_state=0).fit_predict(PCA(10).fit_transform(X))
    assert accuracy(y, model.labels_) > accuracy(y, theirs) + 0.03


def test_clusters_of_pictures():
    images, y = load_digits().images[:400, None] / 16.0, load_digits().target[:400]
    few = y < 3
    model = model_of(3, 200, latent_dim=4, channels=(16,), pretrain_epochs=40, decoder="bernoulli", binarize=True).fit(
        images[few]
    )
    assert accuracy(y[few], model.labels_) > 0.8
    assert model.sample(2, given=1).shape == (2, 1, 8, 8)
    assert len(model.plot().axes) == 2 and len(model.plot(images).axes) == 2


def test_frames_with_gaps():
    frame = pd.DataFrame(BLOBS, columns=list("abcde")).assign(kind=pd.Categorical(np.where(LABELS == 2, "x", "y")))
    frame.loc[::7, "a"] = np.nan
    model = model_of(3, 200).fit(frame)
    assert accuracy(LABELS, model.labels_) > 0.9
    assert list(model.sample(4, given=0).columns) == list(frame.columns)
    assert not model.impute(frame).isna().any().any()


class _Crash(Callback):
    def on_step(self, moment, info):
        if moment.step == 25:
            raise RuntimeError("crash")


def test_a_resumed_run_is_the_unbroken_one(tmp_path):
    def settings(folder, **more):
        return {"steps": 50, "checkpoint": {"folder": str(folder), "every_steps": 10}, **more}

    whole = model_of(trainer=settings(tmp_path / "whole")).fit(BLOBS)
    with pytest.raises(RuntimeError, match="crash"):
        model_of(trainer=settings(tmp_path / "cut", callbacks=(_Crash(),))).fit(BLOBS)
    resumed = model_of(trainer=settings(tmp_path / "cut", resume=True)).fit(BLOBS)
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key]), key


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"n_clusters": range(2, 4)}, "pass a list"),
        ({"n_clusters": []}, r"n_clusters is \[\]"),
        ({"n_clusters": 500}, "n_components = 500, n_samples = 240"),
        ({"pretrain_epochs": -1}, "pretrain_epochs is -1"),
        ({"n_init": 0}, "n_init is 0"),
        ({"start": "kmeans"}, "start is 'kmeans'; use 'mixture', 'map' or an estimator"),
        ({"decoder": "bernoulli"}, "decoder='bernoulli'"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(InvalidInput, match=f"VaDE.fit: .*{words}"):
        model_of(**params).fit(BLOBS)


@pytest.mark.parametrize("start", ["map", benthic.PCA(2)], ids=["map", "PCA"])
def test_clusters_are_looked_for_on_a_map(start, tmp_path):
    model = model_of(3, 50, start=start, guided_epochs=3).fit(BLOBS)
    assert accuracy(LABELS, model.labels_) > 0.95
    again = benthic.load(model.save(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(again.predict(BLOBS), model.labels_)


def test_no_pretraining_still_learns():
    model = model_of(3, 300, pretrain_epochs=0).fit(BLOBS)
    assert model.score(BLOBS) > model_of(3, 3, pretrain_epochs=0).fit(BLOBS).score(BLOBS) + 0.5
