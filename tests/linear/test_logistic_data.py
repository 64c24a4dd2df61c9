"""What goes in and out: weights, classes, types, files, older spellings, wrong data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import benthic

pytestmark = pytest.mark.spec("F-02")
X, Y = load_iris(return_X_y=True)
X = (X - X.mean(0)) / X.std(0)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "settings", [{"solver": "newton"}, {"solver": "lbfgs"}, {"l1_ratio": 0.4}, {"fit_intercept": False, "C": 30.0}]
)
@pytest.mark.parametrize("labels", [Y, Y > 0], ids=["three classes", "two classes"])
def test_weights_count_rows(settings, labels):
    weight = RNG.integers(0, 4, len(Y))
    order = RNG.permutation(weight.sum())
    weighted = benthic.LogisticRegression(**settings).fit(X, labels, sample_weight=weight)
    repeated = benthic.LogisticRegression(**settings).fit(
        np.repeat(X, weight, axis=0)[order], np.repeat(labels, weight)[order]
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-7)


def test_class_weights_multiply_row_weights():
    weight = RNG.uniform(0.5, 2, len(Y))
    by_class = benthic.LogisticRegression(class_weight={0: 3.0, 2: 0.5}).fit(X, Y, sample_weight=weight)
    by_row = benthic.LogisticRegression().fit(X, Y, sample_weight=weight * np.array([3.0, 1.0, 0.5])[Y])
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-9)
    few = np.r_[0:50, 50:60, 100:130]
    balanced = benthic.LogisticRegression(class_weight="balanced").fit(X[few], Y[few])
    by_row = benthic.LogisticRegression().fit(X[few], Y[few], sample_weight=(30 / np.bincount(Y[few]))[Y[few]])
    np.testing.assert_allclose(balanced.coef_, by_row.coef_, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"solver": "lbfgs"}, {"l1_ratio": 1.0}, {"class_weight": "balanced"}])
def test_a_file_gives_what_memory_gives(tmp_path, settings):
    np.save(tmp_path / "rows.npy", np.column_stack([X, Y]))
    source = benthic.data.scan(tmp_path / "rows.npy", target=4)
    streamed = benthic.LogisticRegression(tol=1e-8, trainer={"batch_size": 17}, **settings).fit(source)
    whole = benthic.LogisticRegression(tol=1e-8, **settings).fit(X, Y)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-7)
    np.testing.assert_array_equal(streamed.predict(X), whole.predict(X))


@pytest.mark.parametrize("settings", [{"solver": "newton"}, {"solver": "lbfgs"}, {"l1_ratio": 0.5}])
def test_single_precision_in_single_precision_out(settings):
    narrow = benthic.LogisticRegression(**settings).fit(X.astype(np.float32), Y)
    wide = benthic.LogisticRegression(**settings).fit(X, Y)
    rows = X.astype(np.float32)
    verbs = ("predict_proba", "predict_log_proba", "decision_function")
    assert {getattr(narrow, verb)(rows).dtype for verb in verbs} == {np.dtype("float32")}
    assert narrow.coef_.dtype == narrow.intercept_.dtype == np.float32
    np.testing.assert_allclose(narrow.coef_, wide.coef_, atol=2e-3)


def test_tensors_in_tensors_out():
    model = benthic.LogisticRegression().fit(torch.tensor(X), torch.tensor(Y))
    assert isinstance(model.coef_, torch.Tensor) and isinstance(model.decision_function(torch.tensor(X)), torch.Tensor)
    plain = benthic.LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_.numpy(), plain.coef_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_two_classes_have_one_row_and_several_verbs_agree():
    labels = np.array(["no", "yes"])[(Y > 0).astype(int)]
    model = benthic.LogisticRegression().fit(X, labels)
    assert model.coef_.shape == (1, 4) and model.intercept_.shape == (1,)
    odds = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X) == "yes", odds > 0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


def test_saving_keeps_every_bit(tmp_path):
    model = benthic.LogisticRegression(C=2.0, l1_ratio=0.5).fit(X, Y)
    again = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.get_params() == model.get_params()
    assert again.summary() == model.summary()


def test_the_older_spelling_still_works_and_names_the_newer():
    for penalty, settings in (
        ("l1", {"l1_ratio": 1.0}),
        ("l2", {}),
        ("elasticnet", {"l1_ratio": 0.3}),
        (None, {"C": np.inf}),
    ):
        old = benthic.LogisticRegression(penalty=penalty, l1_ratio=settings.get("l1_ratio", 0.0))
        with pytest.warns(FutureWarning, match="l1_ratio"):
            old.fit(X[50:], Y[50:])
        new = benthic.LogisticRegression(**settings).fit(X[50:], Y[50:])
        np.testing.assert_array_equal(old.coef_, new.coef_)


def test_a_changed_problem_refuses_a_warm_start():
    model = benthic.LogisticRegression(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start needs the classes and features of the last fit, 3 and 4"):
        model.fit(X, Y > 0)


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (X, np.zeros(150), "only one class, .*at least 2 classes"),
        (np.where(X > 2, np.nan, X), Y, "contains NaN: .* in column 0"),
        (np.where(X > 2, np.inf, X), Y, "infinity"),
        (X, Y[:100], r"inconsistent numbers of samples: \[150, 100\]"),
        (X, X[:, 0], "[Uu]nknown label type"),
        (X, None, "requires y to be passed"),
    ],
)
def test_wrong_data_say_what_is_wrong(rows, labels, words):
    with pytest.raises(ValueError, match=f"LogisticRegression.fit: .*{words}"):
        benthic.LogisticRegression().fit(rows, labels)


@pytest.mark.parametrize("labels", [Y, Y > 0], ids=["map", "bars"])
def test_the_picture_shows_every_coefficient(labels):
    model = benthic.LogisticRegression().fit(X, labels)
    axes = model.plot().axes[0]
    if len(model.coef_) == 1:
        np.testing.assert_allclose(sorted(bar.get_width() for bar in axes.patches), np.sort(model.coef_[0]))
    else:
        np.testing.assert_allclose(axes.images[0].get_array(), model.coef_)
