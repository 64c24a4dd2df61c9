"""Settings are checked in one place: NumPy's numbers are numbers, booleans are none, and models take them whole."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import benthic
from benthic.base.errors import InvalidInput
from benthic.base.settings import flag, is_number, is_real, is_whole, number, one_of, positive, sizes, whole
from benthic.training.trainer import Checkpoint, EarlyStopping, Trainer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) @ RNG.normal(size=(3, 3))
LABELS = (X[:, 0] > 0).astype(int)

WHOLE = [0, 3, -2, np.int64(3), np.int8(3), np.uint16(3)]
FRACTIONAL = [0.5, 3.0, np.float64(3.0), np.float32(0.5), np.float16(0.5), Fraction(1, 2)]
NOT_FINITE = [math.inf, -math.inf, math.nan, np.float64("nan"), np.float32("inf")]
NO_NUMBER = [True, False, np.True_, None, "3", 1j, [3], (3,), np.array([3]), np.array(3), torch.tensor(3)]


@pytest.mark.parametrize(
    ("check", "accepted", "refused"),
    [
        (is_whole, WHOLE, FRACTIONAL + NOT_FINITE + NO_NUMBER),
        (is_real, WHOLE + FRACTIONAL, NOT_FINITE + NO_NUMBER),
        (is_number, WHOLE + FRACTIONAL + NOT_FINITE, NO_NUMBER),
    ],
)
def test_what_is_a_number(check, accepted, refused):
    assert [value for value in accepted if not check(value)] == []
    assert [value for value in refused if check(value)] == []


def test_the_ends_of_whole_numbers():
    assert is_whole(np.int64(1), 1) and is_whole(5, 1, 5)
    assert not is_whole(0, 1) and not is_whole(6, 1, 5) and not is_whole(np.int8(-1), 0)


@pytest.mark.parametrize("value", [np.int64(7), np.uint8(7), 7])
def test_whole_numbers_come_back_plain(value):
    assert type(whole("n", value)) is int and whole("n", value) == 7


@pytest.mark.parametrize("value", [0, 2.5, 3.0, True, "3", None, math.nan])
def test_a_refused_whole_number_is_shown(value):
    with pytest.raises(InvalidInput) as caught:
        whole("Trainer: epochs", value)
    assert str(caught.value) == f"Trainer: epochs is {value!r}; it must be a whole number of at least 1"


def test_none_passes_where_it_is_allowed():
    assert whole("n", None, optional=True) is None and positive("n", None, optional=True) is None
    with pytest.raises(InvalidInput, match="n is 0; it must be a whole number of at least 1 or None"):
        whole("n", 0, optional=True)
    with pytest.raises(InvalidInput, match="n is 0; it must be positive or None"):
        positive("n", 0, optional=True)


@pytest.mark.parametrize(
    ("low", "high", "ends", "accepted", "refused", "words"),
    [
        (0, math.inf, "[)", [0, 0.5, np.float32(2)], [-1e-9, math.inf], "a number of at least 0"),
        (0, math.inf, "()", [1e-9, np.int64(2)], [0, -1, math.inf], "positive"),
        (0, math.inf, "(]", [1e-9, math.inf], [0, -math.inf], "positive"),
        (1, math.inf, "()", [1.5], [1, 0], "a number above 1"),
        (0, 1, "[)", [0, np.float64(0.5)], [1, -0.1], "a number in [0, 1)"),
        (0, 1, "(]", [0.5, 1], [0, 1.1], "a number in (0, 1]"),
        (0, 1, "[]", [0, 1], [-0.1, 1.1], "a number between 0 and 1"),
        (0, 1, "()", [0.5], [0, 1], "a number strictly between 0 and 1"),
        (-math.inf, math.inf, "()", [-5, 0.0], [math.inf, -math.inf], "a number"),
    ],
)
def test_intervals(low, high, ends, accepted, refused, words):
    for value in accepted:
        found = number("alpha", value, low, high, ends=ends)
        assert type(found) is float and found == value
    for value in [*refused, math.nan, True, "1", None, [0.5]]:
        with pytest.raises(InvalidInput) as caught:
            number("alpha", value, low, high, ends=ends)
        assert str(caught.value) == f"alpha is {value!r}; it must be {words}"


def test_words():
    assert one_of("solver", "lbfgs", ("newton", "lbfgs")) == "lbfgs"
    assert one_of("tied", None, ("yes", None)) is None
    with pytest.raises(InvalidInput, match=r"solver 'lbgfs' is unknown; did you mean 'lbfgs'\?; use newton, lbfgs"):
        one_of("solver", "lbgfs", ("newton", "lbfgs"))
    with pytest.raises(InvalidInput, match="order 'x' is unknown; use a whole number, aic, bic"):
        one_of("order", "x", ("aic", "bic"), "a whole number, ")
    for odd in (["newton"], np.array(["newton"]), {}):
        with pytest.raises(InvalidInput, match="is unknown"):
            one_of("solver", odd, {"newton": 1, "lbfgs": 2})


def test_flags():
    assert flag("shrinking", True) is True and flag("shrinking", np.False_) is False
    for value in (1, 0, "True", None):
        with pytest.raises(InvalidInput, match="shrinking is .*; it must be True or False"):
            flag("shrinking", value)


@pytest.mark.parametrize("value", [64, np.int64(64), [64], (np.int32(64),), np.array([64]), range(64, 65)])
def test_sizes_come_back_as_a_tuple_of_ints(value):
    found = sizes("hidden_layer_sizes", value)
    assert found == (64,) and all(type(size) is int for size in found)


def test_no_sizes_only_where_that_means_something():
    assert sizes("hidden_layer_sizes", (), empty=True) == sizes("hidden_layer_sizes", np.array([]), empty=True) == ()
    with pytest.raises(InvalidInput, match=r"channels is \(\); give one or more whole numbers of at least 1"):
        sizes("channels", ())


@pytest.mark.parametrize(
    "value", [0, 2.5, True, None, "64", (64, 0), (64, 2.0), np.array([64.0]), np.array(64), [[64]]]
)
def test_sizes_that_are_none_are_refused(value):
    with pytest.raises(InvalidInput, match="hidden_layer_sizes is .*; give whole numbers of at least 1"):
        sizes("hidden_layer_sizes", value, empty=True)


# -- in models -------------------------------------------------------------------------------------------------

ONE = np.int64(1)
QUICK = {"epochs": np.int64(2), "batch_size": np.int64(30), "lr": np.float64(1e-2)}
WIDTHS = np.array([8, 8])
MODELS = [
    benthic.NormalizingFlow("nsf", transforms=np.int64(2), hidden_layer_sizes=WIDTHS, bins=np.int64(4), trainer=QUICK),
    benthic.ContinuousFlow(hidden_layer_sizes=np.int64(8), solver_steps=np.int64(3), method="rk4", trainer=QUICK),
    benthic.EnergyModel(hidden_layer_sizes=WIDTHS, chain_steps=np.int64(2), sampling_steps=np.int64(3), trainer=QUICK),
    benthic.BernoulliRBM(np.int64(4), chains=np.int64(9), sampling_steps=ONE, binarize=np.float64(0), trainer=QUICK),
    benthic.DDPM(hidden=np.int64(8), depth=ONE, steps=np.int64(4), dropout=np.float64(0), trainer=QUICK),
    benthic.VAE(latent_dim=np.int64(2), hidden_layer_sizes=[np.int64(8)], noise=np.float64(0.5), trainer=QUICK),
    benthic.Autoencoder(latent_dim=np.int64(2), hidden_layer_sizes=np.int64(8), trainer=QUICK),
    benthic.GAN(latent_dim=np.int64(2), hidden_layer_sizes=WIDTHS, critic_steps=np.int64(2), trainer=QUICK),
    benthic.MLPClassifier(hidden_layer_sizes=WIDTHS, alpha=np.float32(0.01), trainer=QUICK),
    benthic.GaussianMixture(n_components=np.int64(2), max_iter=np.int64(5), tol=np.float32(1e-2)),
    benthic.KMeans(n_clusters=np.int64(2), n_init=ONE),
    benthic.PCA(n_components=np.int64(2)),
    benthic.RandomForestClassifier(n_estimators=np.int64(3), max_depth=np.int64(2), n_jobs=ONE),
    benthic.SVC(degree=np.int64(2), C=np.float32(1.0)),
]


def plain(value):
    """The same setting in Python's own numbers."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(held) for name, held in value.items()}
    return tuple(map(plain, value)) if isinstance(value, list) else value


def answers(model):
    """What a fitted model says, and draws."""
    verbs = ("predict_proba", "decision_function", "transform", "log_prob")
    found = [np.asarray(getattr(model, verb)(X[:5])) for verb in verbs if hasattr(model, verb)]
    return found + ([np.asarray(model.sample(np.int64(3)))] if hasattr(model, "sample") else [])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_numbers_of_numpy_mean_what_pythons_mean(model, tmp_path):
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=np.int64(3))
    with_python = type(model)(**{name: plain(value) for name, value in model.get_params(deep=False).items()})
    truth = LABELS if hasattr(model, "predict_proba") or "SVC" in repr(model) else None
    expected = answers(with_python.fit(X, truth))
    assert type(model).__name__ in repr(clone(model).fit(X, truth))
    loaded = benthic.load(model.fit(X, truth).save(tmp_path / "model.safetensors"))
    for one in (model, loaded, clone(loaded).fit(X, truth)):
        found = answers(one)
        assert len(found) == len(expected) > 0
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_grid_of_numpy_numbers(tmp_path):
    model = benthic.VAE(hidden_layer_sizes=(8,), trainer={"epochs": 1}, random_state=0)
    grid = GridSearchCV(model, {"latent_dim": np.arange(1, 3), "trainer__epochs": np.arange(1, 2)}, cv=2).fit(X)
    assert grid.best_params_["latent_dim"] in (1, 2)
    loaded = benthic.load(grid.best_estimator_.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.transform(X), grid.best_estimator_.transform(X))


def test_a_trainer_of_numpy_numbers_checkpoints_and_resumes(tmp_path):
    def model(epochs, resume=False):
        saving = Checkpoint(str(tmp_path), every_steps=np.int64(2), keep=np.int64(1))
        stopping = EarlyStopping(patience=np.int64(5), fraction=np.float32(0.2))
        trainer = Trainer(
            epochs=epochs,
            batch_size=np.int64(16),
            accumulate=np.int64(2),
            lr=np.float32(0.01),
            clip=np.float64(1.0),
            early_stopping=stopping,
            checkpoint=saving,
            resume=resume,
        )
        return benthic.MLPClassifier(hidden_layer_sizes=np.array([8]), trainer=trainer, random_state=np.int64(0))

    model(np.int64(2)).fit(X, LABELS)
    assert list((tmp_path / "checkpoints").iterdir()) and (tmp_path / "metrics.jsonl").read_text()
    resumed = model(np.int64(4), resume=True).fit(X, LABELS)
    assert resumed.predict_proba(X).shape == (60, 2)
    assert Trainer(early_stopping=np.int64(3)).stopping == EarlyStopping(patience=3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Trainer(epochs=True), "Trainer: epochs is True; it must be a whole number of at least 1"),
        (lambda: Trainer(lr="fast"), "Trainer: lr is 'fast'; it must be positive"),
        (lambda: EarlyStopping(patience=2.5), "EarlyStopping: patience is 2.5; it must be a whole number"),
        (lambda: Checkpoint(keep=True), "Checkpoint: keep is True"),
        (lambda: benthic.VAE(latent_dim=True).fit(X), "VAE.fit: latent_dim is True; it must be a whole number"),
        (lambda: benthic.DDPM(hidden=True).fit(X), "DDPM.fit: hidden is True"),
        (lambda: benthic.GAN(hidden_layer_sizes=(8, 0)).fit(X), r"GAN.fit: hidden_layer_sizes is \(8, 0\); give whole"),
        (lambda: benthic.NormalizingFlow(transforms=True).fit(X), "NormalizingFlow.fit: transforms is True"),
        (lambda: benthic.GaussianMixture(tol=True).fit(X), "GaussianMixture.fit: tol is True; it must be a number"),
        (lambda: benthic.MLPClassifier(alpha="small").fit(X, LABELS), "MLPClassifier.fit: alpha is 'small'"),
        (lambda: benthic.MLPClassifier(hidden_layer_sizes=8.5).fit(X, LABELS), "hidden_layer_sizes is 8.5"),
    ],
)
def test_booleans_and_words_are_no_numbers(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
