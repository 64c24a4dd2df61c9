"""Wrong input gets one clear sentence, for every model of the catalogue, and loses nothing."""

from __future__ import annotations

from inspect import getattr_static

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError

import benthic
from benthic.base.settings import _plain_settings
from tests.contract.conftest import TABLES, X, data_for, fitted, make, targets

NAMES = TABLES
DECODES = [n for n in NAMES if hasattr(benthic.catalogue()[n].cls, "decode")]
UNKNOWN = "unknown"
PICKY = [n for n in NAMES if "missing" not in benthic.catalogue()[n].data]


def refuses(name, rows, words, y=None, error=ValueError):
    y = targets(name) if y is None else y
    with pytest.raises(error, match=words) as caught:
        make(name).fit(rows, y)
    text = str(caught.value)
    assert text.startswith(f"{name}.fit: "), text
    assert "Traceback" not in text and len(text) < 500


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("name", PICKY)
def test_nan_names_the_column_and_who_accepts_it(name, as_tensor):
    rows = X.copy()
    rows[3, 2] = np.nan
    refuses(name, torch.tensor(rows) if as_tensor else rows, "NaN: 1 in column 2.*GaussianMixture")


@pytest.mark.parametrize("name", PICKY)
def test_nan_in_a_frame_names_the_column(name):
    rows = pd.DataFrame(X, columns=["age", "height", "mass", "dose"])
    rows.loc[4, "age"] = None
    refuses(name, rows, "NaN: 1 in column 'age'")


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: np.where(r == r.max(), np.inf, r), "infinity"),
        (lambda r: r * 1e300, "squares overflow"),
        (lambda r: r[:0], "0 sample"),
        (lambda r: r[:, :0], "0 feature"),
        (lambda r: r[:, 0], "Expected 2D array, got 1D array|Reshape your data"),
        (lambda r: r + 1j, "Complex data not supported"),
    ],
    ids=["inf", "huge", "empty", "no columns", "one dimension", "complex"],
)
def test_unusable_numbers(name, change, words, as_tensor):
    rows = change(X.copy())
    y = targets(name)
    y = None if y is None else y[: len(rows)]
    refuses(name, torch.tensor(rows) if as_tensor else rows, words, y)


@pytest.mark.parametrize("name", NAMES)
def test_strings_in_a_numeric_array(name):
    rows = X.astype(object)
    rows[0, 0] = "many"
    refuses(name, rows, "'many' in row 0, column 0, where a number is needed")


@pytest.mark.parametrize("name", NAMES)
def test_whole_numbers_beyond_floating_point(name):
    rows = X.astype(object)
    rows[3, 2] = 10**400
    refuses(name, rows, "whole number in row 3, column 2 that is too large")


@pytest.mark.parametrize("name", NAMES)
def test_tensors_without_numbers(name):
    refuses(name, torch.empty(X.shape, device="meta"), "'meta'.*no numbers")


@pytest.mark.parametrize("name", DECODES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda z: [[10**400, *z[0, 1:]]], "Z holds a whole number in row 0, column 0 that is too large"),
        (lambda z: np.full(z.shape, "many"), "Z holds .many. in row 0"),
        (lambda z: [list(z[0]), []], "Z has rows of different lengths"),
        (lambda z: {"a": 1}, "Z is {'a': 1}, where an array of numbers is needed"),
        (lambda z: torch.tensor(z, device="meta"), "Z is a tensor on the device 'meta'"),
        (lambda z: torch.tensor(z).to_sparse(), "[Ss]parse"),
        (lambda z: z + 1j, "Complex data not supported"),
        (lambda z: z[:0], "at least one row is needed"),
        (lambda z: z[:, 1:], "expected \\(n, "),
        (lambda z: z * 1e300, "squares overflow"),
    ],
    ids=["huge", "strings", "ragged", "dict", "meta", "sparse", "complex", "empty", "narrow", "large"],
)
def test_unusable_codes(name, change, words):
    model = fitted(name)
    for verb in ("decode", "inverse_transform"):
        with pytest.raises((ValueError, TypeError), match=f"{name}.{verb}: .*{words}"):
            getattr(model, verb)(change(np.ones((2, model._n_features_out))))


@pytest.mark.parametrize("name", [n for n in NAMES if targets(n) is not None])
def test_targets_as_tensors(name):
    """Half-precision targets are numbers like others; what holds no dense real numbers is refused."""
    y = torch.tensor(targets(name))
    assert make(name).fit(data_for(name), y.to(torch.bfloat16)).n_features_in_ == 4
    refuses(name, X, "y is a tensor on the device 'meta'", torch.empty(len(y), device="meta"))
    refuses(name, X, "Sparse data was passed.*y.to_dense", y.to_sparse(), TypeError)
    refuses(name, X, "Complex data not supported", y + 1j)


@pytest.mark.parametrize("name", [n for n in NAMES if "classify" in benthic.catalogue()[n].tasks])
def test_labels_with_gaps_or_of_several_kinds(name):
    y = np.where(np.arange(len(X)) % 2, "a", "b").astype(object)
    missing = "Input y contains NaN: 1 of 120 labels are missing, the first in row 3; drop"
    for gap in (None, np.nan):
        y[3] = gap
        refuses(name, X, missing, y.copy())
        refuses(name, X, missing, y.tolist())
        refuses(name, X, missing, pd.Series(y, dtype="string"))
        refuses(name, X, missing, pd.Series(y, dtype="category"))
    y[3] = 7
    refuses(name, X, "mixes strings with other labels, 'b' in row 0 and 7 in row 3", y.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_sparse_matrices(name):
    if "documents" not in benthic.catalogue()[name].data:  # counts of words are mostly zeros, and taken so
        refuses(name, scipy.sparse.csr_matrix(X), "[Ss]parse", error=TypeError)
    refuses(name, torch.tensor(X).to_sparse(), "[Ss]parse", error=TypeError)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_text_alone(name):
    words = [f"free text number {i} that says nothing" for i in range(len(X))]
    refuses(name, pd.DataFrame({"note": words, "remark": words[::-1]}), "note.*remark|every column")


@pytest.mark.parametrize("name", NAMES)
def test_a_one_shot_iterator(name):
    refuses(name, (row for row in X), "one-shot iterator")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_wrong_number_of_features_later(name, kind):
    X = data_for(name)
    model = fitted(name)
    for verb in ("predict", "transform", "likelihood", "predict_proba"):
        if hasattr(model, verb):
            with pytest.raises(ValueError, match=f"{name}.{verb}: X has 3 features, but {name} is expecting 4"):
                getattr(model, verb)(kind(X[:, :3]))


@pytest.mark.parametrize("name", [n for n in NAMES if targets(n) is not None])
def test_targets_of_another_length_or_none(name):
    refuses(name, X, "inconsistent numbers of samples: \\[120, 119\\]", targets(name)[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        make(name).fit(X)


@pytest.mark.parametrize("name", [n for n in NAMES if "classify" in benthic.catalogue()[n].tasks])
def test_one_class(name):
    refuses(name, X, "only one class, 1", np.ones(len(X), dtype=int))


@pytest.mark.parametrize("name", NAMES)
def test_one_row(name):
    X, y = data_for(name), targets(name)
    tasks = benthic.catalogue()[name].tasks
    if "classify" in tasks:
        refuses(name, X[:1], "one class", y[:1])
    elif "cluster" in tasks:
        refuses(name, X[:1], "1 row|n_samples = 1|components")
    else:
        model = make(name).fit(X[:1], None if y is None else y[:1])
        assert model.n_features_in_ == 4


@pytest.mark.parametrize("name", NAMES)
def test_constant_columns_are_no_trouble(name):
    X = data_for(name).copy()
    X[:, 1] = 3.0
    model = make(name).fit(X, targets(name))
    for verb in ("predict_proba", "predict", "transform"):
        if hasattr(model, verb):
            assert np.isfinite(getattr(model, verb)(X)).all()
    if hasattr(model, "likelihood"):
        assert np.isfinite(model.likelihood(X).value).all()


WEIGHTED = [n for n in NAMES if "sample_weight" in benthic.catalogue()[n].cls.fit.__code__.co_varnames]


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (-np.ones(120), "negative"),
        (np.zeros(120), "zero everywhere|non-zero"),
        (np.ones(5), "shape"),
        (np.full(120, np.nan), "NaN"),
        (np.full(120, 1e300), "square of its sum overflows|NaN or infinity"),
    ],
)
def test_unusable_weights(name, weight, words):
    for kind in (np.asarray, torch.tensor):
        with pytest.raises(ValueError, match=words):
            make(name).fit(X, targets(name), sample_weight=kind(weight))


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_fit_leaves_the_fitted_model_usable(name):
    X = data_for(name)
    model = make(name).fit(X, targets(name))
    verb = "predict" if hasattr(model, "predict") else "transform"
    before = getattr(model, verb)(X)
    with pytest.raises(ValueError, match="NaN|infinity"):
        model.fit(np.full_like(X, np.inf), targets(name))
    np.testing.assert_array_equal(getattr(model, verb)(X), before)


@pytest.mark.parametrize("name", NAMES)
def test_not_fitted_yet(name):
    model = make(name)
    for verb in ("predict", "transform", "sample", "likelihood"):
        if hasattr(model, verb):
            with pytest.raises(Exception, match="not fitted yet"):
                getattr(model, verb)(*((1,) if verb == "sample" else (X,)))


@pytest.mark.parametrize("name", list(benthic.catalogue()))
def test_what_is_learned_is_missed_in_words(name):
    """Properties and pictures of a model that is not fitted, and any name that ends in an underscore."""
    model, cls = make(name), benthic.catalogue()[name].cls
    properties = [
        key
        for key in dir(cls)
        if key.endswith("_") and key[0] != "_" and isinstance(getattr_static(cls, key), property)
    ]
    kernel_only = "only available with kernel='linear'"  # coef_ of machines, fitted or not
    for key in [*properties, "something_", "_something"]:
        assert not hasattr(model, key)
        with pytest.raises(AttributeError, match=f"not fitted yet|{kernel_only}"):
            getattr(model, key)
    if hasattr(model, "plot"):
        with pytest.raises((NotFittedError, TypeError), match="not fitted yet|missing"):
            model.plot()
    with pytest.raises(AttributeError, match="has no attribute 'unknown'") as caught:
        getattr(model, UNKNOWN)
    assert not isinstance(caught.value, NotFittedError)


@pytest.mark.parametrize("value", [torch.tensor([1.0, 2.0]), np.array([1.0, 2.0]), len], ids=["tensor", "array", "def"])
@pytest.mark.parametrize("name", NAMES)
def test_settings_that_are_no_plain_values(name, value):
    """A setting of one value is refused by its name when it is an array or a function, before anything compares it."""
    entry = benthic.catalogue()[name]
    for setting, kinds in _plain_settings(entry.cls).items():
        with pytest.raises(ValueError, match=f"^{name}.fit: {setting} is .*; it must be {kinds[0]}"):
            make(name).set_params(**{setting: value}).fit(data_for(name), targets(name))


def test_probabilities_that_were_asked_for_after_the_fit():
    model = benthic.SVC().fit(X, targets("SVC")).set_params(probability=True)
    with pytest.raises(NotFittedError, match="probability=True was set after fit"):
        model.predict_proba(X)


@pytest.mark.parametrize("value", [len, torch.eye(4), np.eye(4)], ids=["function", "tensor", "array"])
def test_choices_that_scikit_learn_has_and_we_have_not(value):
    for model in (benthic.ElasticNet(precompute=value), benthic.Lasso(precompute=value)):
        with pytest.raises(ValueError, match="precompute is .*; use True, False or 'auto'"):
            model.fit(X, targets("Lasso"))
    for model in (benthic.KMeans(2, init=value), benthic.TSNE(init=value)):
        with pytest.raises(ValueError, match="fit: (init is|init has|The shape of the initial centers)"):
            model.fit(X)


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(benthic.catalogue()[n].cls, "sample")])
def test_more_draws_than_fit_in_memory(name):
    with pytest.raises(ValueError, match=f"{name}.sample: n is 10{{14}}; it must be at most "):
        fitted(name).sample(10**14)


@pytest.mark.parametrize("name", NAMES)
def test_whole_numbers_that_no_computer_holds_as_settings(name):
    """Counts stop at what 32 bits hold, numbers at what a float holds, seeds at 63 bits."""
    entry = benthic.catalogue()[name]
    for setting, kinds in _plain_settings(entry.cls).items():
        if "a whole number" in kinds or "a number" in kinds:
            with pytest.raises(ValueError, match=f"^{name}.fit: {setting} "):
                make(name).set_params(**{setting: 10**400}).fit(data_for(name), targets(name))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (benthic.RandomForestClassifier(10**9), "n_estimators is 1000000000; it must be at most 1000000"),
        (benthic.BaggingClassifier(n_estimators=10**9), "n_estimators is 1000000000; it must be at most 1000000"),
        (benthic.GradientBoostingClassifier(max_iter=10**9), "max_iter is 1000000000; it must be at most 1000000"),
        (
            benthic.MLPClassifier(trainer={"batch_size": 10**12}),
            "batch_size is 1000000000000; it must be at most 2147483647",
        ),
        (benthic.SVC(tol=1e-320), "tol is .*; it must be a number of at least 2.22045e-16"),
    ],
    ids=["forest", "bagging", "boosting", "batch", "tol"],
)
def test_settings_beyond_any_machine_name_what_would_work(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, targets("SVC"))
