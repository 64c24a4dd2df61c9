"""The restricted Boltzmann machine: partition functions, chains, what it learns and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.neural_network import BernoulliRBM as Peer

import benthic
from benthic.base.errors import InvalidInput
from benthic.generative.energy.boltzmann_network import BoltzmannNetwork
from benthic.generative.energy.partition import annealed_partition, exact_draws, log_partition
from benthic.training.callbacks import Callback

pytestmark = pytest.mark.spec("N-04")
GRAY = load_digits().data[:600] / 16.0
BITS = (GRAY > 0.5).astype(np.float64)


def machine(visible, hidden, size=1.0, seed=0):
    torch.manual_seed(seed)
    network = BoltzmannNetwork(visible, hidden).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=size)
    return network


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def model():
    return benthic.BernoulliRBM(8, trainer={"epochs": 150, "lr": 0.2, "batch_size": 50}, random_state=0).fit(BITS)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_the_partition_function_counts_both_sides(shape):
    network = machine(*shape)
    a, b, W = network.visible_bias, network.hidden_bias, network.weight
    total = [
        a @ v + b @ h + v @ W @ h
        for v in map(torch.tensor, itertools.product([0.0, 1.0], repeat=shape[0]))
        for h in map(torch.tensor, itertools.product([0.0, 1.0], repeat=shape[1]))
        for v, h in [(v.double(), h.double())]
    ]
    assert log_partition(network) == pytest.approx(torch.logsumexp(torch.stack(total), 0).item(), abs=1e-10)


def test_conditionals_and_free_energy_are_those_of_the_joint_law():
    network = machine(4, 3)
    v = torch.tensor([[1.0, 0, 1, 1]], dtype=torch.float64)
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    joint = v @ network.visible_bias + states @ network.hidden_bias + (v @ network.weight @ states.T)[0]
    torch.testing.assert_close(network(v)[0], -torch.logsumexp(joint, 0))
    torch.testing.assert_close(torch.sigmoid(network.drive(v))[0], torch.softmax(joint, 0) @ states)


@pytest.mark.parametrize("shape", [(10, 6), (20, 9)])
def test_annealing_agrees_with_the_exact_partition_function_in_both_directions(shape):
    network = machine(*shape, size=0.7)
    truth, base = log_partition(network), network.visible_bias.detach()
    options = {"temperatures": 600, "chains": 3000}
    forward = annealed_partition(network, base, generator=stream(), **options)
    exact = exact_draws(network, 3000, stream(1))
    reverse = annealed_partition(network, base, exact=exact, generator=stream(2), **options)
    assert abs(float(forward.value) - truth) < 1e-2 and abs(float(reverse.value) - truth) < 1e-2
    assert float(forward.stderr) < 5e-3 and forward.bound == "lower" and reverse.bound == "upper"


def test_one_temperature_step_is_plain_importance_sampling_and_unbiased():
    network = machine(4, 2, size=0.5)
    base = torch.zeros(4, dtype=torch.float64)
    found = annealed_partition(network, base, temperatures=1, chains=200_000, generator=stream())
    assert abs(float(found.value) - log_partition(network)) < 4 * float(found.stderr)


def test_block_gibbs_and_exact_draws_have_the_law_of_the_machine():
    network = machine(3, 4)
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    truth = torch.softmax(-network(states), 0).detach()
    codes = torch.tensor([4.0, 2, 1], dtype=torch.float64)
    for rows in (
        network.gibbs(torch.zeros(40_000, 3, dtype=torch.float64), 60, stream()),
        exact_draws(network, 40_000, stream()),
    ):
        found = torch.bincount((rows @ codes).long(), minlength=8) / len(rows)
        assert (found - truth).abs().max() < 4 * (0.25 / len(rows)) ** 0.5


def test_learning_beats_independent_units(model):
    rates = BITS.mean(0).clip(1e-3, 1 - 1e-3)
    independent = (BITS * np.log(rates) + (1 - BITS) * np.log(1 - rates)).sum(1).mean()
    found = model.likelihood(BITS)
    assert (found.kind, found.bound, found.measure) == ("exact", "exact", "mass")
    assert found.mean() > independent + 4
    np.testing.assert_allclose(model.log_prob(BITS), found.value)
    np.testing.assert_allclose(model.anomaly(BITS), -found.value)


def test_both_annealed_likelihoods_enclose_the_exact_one(model):
    exact, above, below = (model.likelihood(BITS, m) for m in ("exact", "ais(1000)", "reverse(1000)"))
    assert (above.kind, above.bound, below.bound) == ("ais", "upper", "lower")
    assert abs(above.mean() - exact.mean()) < 0.05 and abs(below.mean() - exact.mean()) < 0.05
    assert above.stderr.max() < 0.02


def test_a_peer_with_these_weights_has_the_same_codes_free_energies_and_pseudo_likelihood(model):
    peer = Peer(8).fit(BITS[:10])
    weights = {key: value.detach().double().numpy() for key, value in model.network_.state_dict().items()}
    peer.components_, peer.intercept_hidden_ = weights["weight"].T, weights["hidden_bias"]
    peer.intercept_visible_ = weights["visible_bias"]
    np.testing.assert_allclose(model.transform(BITS), peer.transform(BITS), rtol=1e-6)
    np.testing.assert_allclose(model.free_energy(BITS), peer._free_energy(BITS), rtol=1e-6)
    ours, theirs = model.pseudo_likelihood(BITS).mean(), peer.score_samples(BITS).mean()
    assert abs(ours - theirs) < 4 * 64 * 0.5 / len(BITS) ** 0.5  # each looks at other units of the rows


def test_samples_and_gaps(model):
    drawn = model.sample(500, seed=0)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.abs(drawn.mean(0) - BITS.mean(0)).mean() < 0.1
    holed = BITS[:200].copy()
    holed[:, 20:30] = np.nan
    filled = model.impute(holed)
    rates = np.broadcast_to(BITS.mean(0)[20:30], (200, 10))
    truth = BITS[:200, 20:30]
    assert np.square(filled[:, 20:30] - truth).mean() < 0.9 * np.square(rates - truth).mean()
    given = model.sample(5, given=holed[:1], seed=0)
    np.testing.assert_array_equal(given[:, :20], np.repeat(BITS[:1, :20], 5, axis=0))
    assert set(np.unique(given)) <= {0.0, 1.0}


@pytest.mark.parametrize("objective", ["persistent", "contrastive_divergence"])
def test_gray_pictures_are_drawn_afresh(objective):
    images = GRAY[:100].reshape(-1, 1, 8, 8)
    model = benthic.BernoulliRBM(4, objective=objective, binarize=True, trainer={"steps": 20}, random_state=0)
    model.fit(images)
    assert model.sample(3, seed=0).shape == (3, 1, 8, 8) and model.transform(images).shape == (100, 4)
    with pytest.raises(ValueError, match=r"BernoulliRBM.likelihood: .*binarize it, for example X > 0.5"):
        model.likelihood(images)


@pytest.mark.parametrize(
    ("rows", "settings", "words"),
    [
        (GRAY * 16, {"binarize": True}, "values such as .*scale X to"),
        (GRAY * 16, {"binarize": False}, "scale X to"),
        (GRAY, {"binarize": False}, "binarize it, for example"),
        (-BITS, {"binarize": True}, "values such as -1"),
        (BITS, {"binarize": "always"}, "binarize is 'always'"),
        (BITS, {"objective": "persistant"}, "did you mean 'persistent'"),
        (BITS, {"n_components": 0}, "n_components is 0"),
        (BITS, {"gibbs_steps": 1.5}, "gibbs_steps is 1.5"),
        (BITS, {"chains": 0}, "chains is 0"),
    ],
)
def test_bad_settings_and_rows_get_one_sentence(rows, settings, words):
    with pytest.raises(ValueError, match=f"BernoulliRBM.fit: .*{words}"):
        benthic.BernoulliRBM(**{"n_components": 2, "trainer": {"steps": 1}, **settings}).fit(rows)


def test_numbers_of_any_size_are_cut_at_medians_and_that_is_said():
    X = np.random.default_rng(0).normal(5, 3, size=(100, 3))
    with pytest.warns(UserWarning, match="above its median"):
        model = benthic.BernoulliRBM(2, trainer={"steps": 2}, random_state=0).fit(X)
    np.testing.assert_allclose(model.thresholds_, np.median(X, 0))
    assert benthic.BernoulliRBM(2, binarize=5.0, trainer={"steps": 2}).fit(X).thresholds_.tolist() == [5.0] * 3


def test_unknown_methods_and_too_many_states_are_refused(model):
    for method in ("eais", "ais(1)", "reverse()"):
        with pytest.raises(ValueError, match="BernoulliRBM.likelihood: method"):
            model.likelihood(BITS, method)
    wide = benthic.BernoulliRBM(40, trainer={"steps": 1}, random_state=0).fit(BITS)
    assert not hasattr(wide, "log_prob") and wide.likelihood(BITS).kind == "ais"
    with pytest.raises(ValueError, match="40 units, too many states"):
        wide.likelihood(BITS, "exact")
    np.testing.assert_allclose(wide.anomaly(BITS), wide.free_energy(BITS))


class StopAt(Callback):
    def on_step(self, moment, info):
        if moment.step == 25:
            raise RuntimeError("crash")


def test_a_resumed_run_goes_on_with_its_chains_to_the_bit(tmp_path):
    def fit(folder, **more):
        settings = {"steps": 60, "batch_size": 50, "checkpoint": {"folder": str(folder), "every_steps": 7}, **more}
        return benthic.BernoulliRBM(5, chains=20, trainer=settings, random_state=0).fit(BITS)

    whole = fit(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="crash"):
        fit(tmp_path / "cut", callbacks=(StopAt(),))
    resumed = fit(tmp_path / "cut", resume=True)
    for key, value in whole.network_.state_dict().items():
        assert torch.equal(value, resumed.network_.state_dict()[key]), key
    np.testing.assert_array_equal(whole.chains_, resumed.chains_)
    assert whole.history_ == resumed.history_


def test_early_stopping_goes_by_the_pseudo_likelihood():
    trainer = {"epochs": 6, "early_stopping": {"patience": 2, "fraction": 0.2}}
    model = benthic.BernoulliRBM(4, trainer=trainer, random_state=0).fit(BITS)
    assert all(entry["val_loss"] > 0 for entry in model.history_)


def test_errors_name_the_verb_and_methods_that_there_are() -> None:
    bits = (np.random.default_rng(0).random((40, 30)) < 0.4).astype(float)
    model = benthic.BernoulliRBM(27, binarize=False, trainer={"epochs": 1}, random_state=0).fit(bits)
    with pytest.raises(InvalidInput, match=r"BernoulliRBM.likelihood: .*27 units, .*up to 25 .*use 'ais\(k\)'"):
        model.likelihood(bits, "exact")
    with pytest.raises(InvalidInput, match=r"BernoulliRBM.impute: units are zeros and ones"):
        model.impute(np.where(bits == 1, 0.5, np.nan))
    with pytest.raises(
        InvalidInput, match=r"BernoulliRBM.sample: given is 1, not rows .*pass rows with NaN in their gaps"
    ):
        model.sample(2, given=1)
    with pytest.raises(InvalidInput, match="binarize is nan"):
        benthic.BernoulliRBM(4, binarize=float("nan")).fit(bits)
    for verb in (lambda: benthic.BernoulliRBM(3).log_partition(), lambda: benthic.BernoulliRBM(3).anomaly(bits)):
        with pytest.raises(NotFittedError):
            verb()
    with pytest.raises(InvalidInput, match=r"BernoulliRBM.log_partition: chains is 1; .*at least 2"):
        model.log_partition("ais(10)", chains=1)
