"""Fully connected networks as predictors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

import benthic
from benthic.training.finder import find_lr

pytestmark = pytest.mark.spec("J-07")


def test_classifier_on_digits():
    X, y = load_digits(return_X_y=True)
    settings = {"epochs": 15, "lr": 3e-3}
    model = benthic.MLPClassifier((64,), trainer=settings, random_state=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.88
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)


def test_columns_of_any_scale_will_do():
    X, y = load_breast_cancer(return_X_y=True)  # columns from 1e-3 to 1e3
    scores = cross_val_score(benthic.MLPClassifier((16,), trainer={"steps": 500}, random_state=0), X, y, cv=3)
    assert scores.mean() > 0.94


def test_regressor_on_diabetes_and_several_targets():
    X, y = load_diabetes(return_X_y=True)
    model = benthic.MLPRegressor((16,), alpha=0.01, trainer={"steps": 400}, random_state=0)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.2
    both = np.stack([y, 100 - 2 * y], axis=1)
    predicted = model.fit(X, both).predict(X)
    assert predicted.shape == both.shape
    assert model.score(X, both) > 0.2
    assert np.corrcoef(predicted.T)[0, 1] < -0.5


def test_wider_networks_approximate_better():
    X = np.linspace(-3, 3, 400)[:, None]
    y = np.sin(1.5 * X[:, 0])
    errors = []
    for width in (1, 64):
        settings = {"steps": 1500, "lr": 0.02, "schedule": "cosine"}
        model = benthic.MLPRegressor((width,), alpha=0.0, trainer=settings, random_state=0)
        errors.append(1 - model.fit(X, y).score(X, y))
    assert errors[1] < 0.01 < 0.05 < errors[0]


def test_a_polynomial_activation_is_not_universal():
    X = np.linspace(-3, 3, 200)[:, None]
    y = np.abs(X[:, 0])
    linear = benthic.MLPRegressor((64,), "identity", trainer={"steps": 500, "lr": 0.02}, random_state=0).fit(X, y)
    assert linear.score(X, y) < 0.05
    relu = benthic.MLPRegressor((64,), "relu", trainer={"steps": 500, "lr": 0.02}, random_state=0).fit(X, y)
    assert relu.score(X, y) > 0.99


def test_alpha_is_the_gradient_of_half_the_squared_norm():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = X.sum(1)
    settings = {"steps": 1, "batch_size": 40, "optimizer": "sgd", "lr": 0.1, "precision": "float64"}

    def weights(alpha):
        model = benthic.MLPRegressor((4,), alpha=alpha, trainer=settings, random_state=0).fit(X, y)
        return [p.detach() for p in model.network_.parameters()]

    start = benthic.MLPRegressor((4,), alpha=0.0, trainer={**settings, "lr": 1e-300}, random_state=0).fit(X, y)
    for free, held, first in zip(weights(0.0), weights(0.5), start.network_.parameters(), strict=True):
        expected = free - 0.1 * 0.5 * first.detach() if first.ndim > 1 else free
        torch.testing.assert_close(held, expected, rtol=1e-9, atol=1e-12)


def test_class_weights_shift_the_answer():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), (rng.random(300) < 0.1).astype(int)
    settings = {"steps": 400, "lr": 5e-3}
    plain = benthic.MLPClassifier((8,), trainer=settings, random_state=0).fit(X, y)
    balanced = benthic.MLPClassifier((8,), class_weight="balanced", trainer=settings, random_state=0).fit(X, y)
    assert plain.predict_proba(X)[:, 1].mean() < 0.2 < 0.4 < balanced.predict_proba(X)[:, 1].mean() < 0.6


def test_string_classes_and_grid_search_over_trainer_settings():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], np.array(list("abcdefghij"))[y[:200]]
    grid = {"trainer__lr": [1e-5, 1e-2], "hidden_layer_sizes": [(16,)]}
    search = GridSearchCV(benthic.MLPClassifier(trainer={"epochs": 10}, random_state=0), grid, cv=2).fit(X, y)
    assert search.best_params_["trainer__lr"] == 1e-2
    assert set(search.predict(X)) <= set("abcdefghij")


def test_early_stopping_holds_rows_out():
    X, y = load_digits(return_X_y=True)
    settings = {"epochs": 200, "lr": 0.01, "early_stopping": 3}
    model = benthic.MLPClassifier((64,), trainer=settings, random_state=0).fit(X[:600], y[:600])
    assert model.n_iter_ < 100 and "val_loss" in model.history_[0]


def test_rate_finder_gives_a_rate_that_learns():
    X, y = load_digits(return_X_y=True)
    model = benthic.MLPClassifier((32,), trainer={"epochs": 5}, random_state=0)
    found = find_lr(model, X, y)
    assert 1e-5 < found.best < 0.5 and model.trainer == {"epochs": 5}
    assert model.set_params(trainer__lr=found.best).fit(X, y).score(X, y) > 0.9
    assert found.plot().axes


@pytest.mark.slow
def test_compiled_training_equals_plain_training():
    X, y = load_digits(return_X_y=True)
    plain, fast = (
        benthic.MLPClassifier((32,), trainer={"steps": 50, "compile": flag}, random_state=0).fit(X, y)
        for flag in (False, True)
    )
    np.testing.assert_allclose(fast.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    assert set(fast.network_.state_dict()) == set(plain.network_.state_dict())


def test_only_whole_batches_are_compiled(monkeypatch):
    sizes = []

    def recorded(network, device, what, dynamic):
        def call(x):
            sizes.append(len(x))
            return network(x)

        return call

    monkeypatch.setattr("benthic.training.network.compiled", recorded)
    X, y = load_digits(return_X_y=True)
    settings = {"epochs": 2, "batch_size": 32, "accumulate": 2, "compile": True}
    benthic.MLPClassifier((8,), trainer=settings, random_state=0).fit(X[:100], y[:100])
    assert sizes == [16] * 12  # the last 4 of 100 rows would be one more shape to compile for


def test_tensorboard_gets_the_losses(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from benthic.training import TensorBoard

    X, y = load_digits(return_X_y=True)
    settings = {"epochs": 3, "callbacks": (TensorBoard(tmp_path),)}
    model = benthic.MLPClassifier((8,), trainer=settings, random_state=0).fit(X, y)
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("loss")
    np.testing.assert_allclose([e.value for e in events], [h["loss"] for h in model.history_], rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes is"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"trainer": {"epoch": 3}}, "did you mean 'epochs'"),
        ({"trainer": 5}, "pass a Trainer or a dict"),
        ({"random_state": -3}, "random_state is -3"),
    ],
)
def test_wrong_settings(params, words):
    with pytest.raises(ValueError, match=f"MLPClassifier.fit: .*{words}"):
        benthic.MLPClassifier(**params).fit(np.eye(4), [0, 1, 0, 1])
