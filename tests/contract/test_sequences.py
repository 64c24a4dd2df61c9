"""The contract of models of sequences: ragged lists, arrays and tensors in, the same out; seeds, files, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import benthic
from tests.contract.conftest import SEQUENCES, make

RNG = np.random.default_rng(0)
STEPS = np.cumsum(RNG.normal(size=(12, 15, 2)), axis=1) * 0.3 + RNG.normal(size=(12, 15, 2))
RAGGED = [sequence[: 5 + i % 10] for i, sequence in enumerate(STEPS)]
WORDS = ["abracadabra", "alabaster", "barbara", "cascade", "salsa", "bazaar"]
OF_SYMBOLS = [name for name in SEQUENCES if "symbols" in benthic.catalogue()[name].data]
OF_NUMBERS = [name for name in SEQUENCES if name not in OF_SYMBOLS]
DENSITIES = [name for name in SEQUENCES if "density" in benthic.catalogue()[name].tasks]
CODE_VERBS = ("predict_proba", "log_prob", "anomaly")


def data_for(name: str) -> Any:
    return WORDS if name in OF_SYMBOLS else STEPS


def labels_for(name: str, X: Any) -> Any:
    if "label" not in benthic.catalogue()[name].tasks:
        return None
    return [(np.asarray(sequence)[:, 0] > 0).astype(int) for sequence in X]


def fit(name: str, X: Any = None, **params: Any) -> Any:
    X = data_for(name) if X is None else X
    return make(name, **params).fit(X, labels_for(name, X))


def same(a: Any, b: Any) -> None:
    assert len(a) == len(b)
    for left, right in zip(map(np.asarray, a), map(np.asarray, b), strict=True):
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-9)
        else:
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_estimator_is_one_of_scikit_learn(name):
    model = make(name)
    assert clone(model).get_params() == model.get_params()
    verb = next(v for v in ("predict", "forecast", "likelihood", "sample") if hasattr(model, v))
    with pytest.raises(NotFittedError):
        getattr(model, verb)(*(() if verb == "sample" else (data_for(name),)))
    assert "not fitted" in model.summary()
    assert model.fit(data_for(name), labels_for(name, data_for(name))) is model


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_tensors_and_lists_are_mirrored(name, dtype):
    model, rows = fit(name), STEPS.astype(dtype)
    for verb in CODE_VERBS:
        if hasattr(model, verb):
            as_array, as_list = getattr(model, verb)(rows), getattr(model, verb)(list(rows))
            as_tensor = getattr(model, verb)(torch.from_numpy(rows))
            assert isinstance(as_array, np.ndarray) and as_array.dtype == dtype, verb
            assert isinstance(as_tensor, torch.Tensor) and str(as_tensor.dtype).endswith(dtype), verb
            np.testing.assert_array_equal(as_array, as_tensor.numpy())
            same(as_array, as_list)


@pytest.mark.parametrize("name", SEQUENCES)
def test_one_seed_gives_one_result_and_files_keep_it(name, tmp_path):
    X, model = data_for(name), fit(name)
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    again = fit(name)
    assert loaded.summary() == model.summary() == again.summary()
    for verb in (*CODE_VERBS, "predict"):
        if hasattr(model, verb):
            same(getattr(loaded, verb)(X), getattr(model, verb)(X))
            same(getattr(again, verb)(X), getattr(model, verb)(X))


@pytest.mark.parametrize("name", SEQUENCES)
def test_summary_and_picture(name):
    model = fit(name)
    assert name in model.summary() and len(model.summary().splitlines()) > 2
    assert model.plot().axes


@pytest.mark.parametrize("name", DENSITIES)
def test_likelihood_declares_itself(name):
    X, model = data_for(name), fit(name)
    found = model.likelihood(X)
    assert found.value.shape == found.stderr.shape == (len(X),)
    assert found.bound in ("exact", "lower", "upper", "estimate") and found.measure in ("density", "mass")
    assert model.score(X) == pytest.approx(found.value.mean())
    assert hasattr(model, "log_prob") == (found.bound == "exact")


@pytest.mark.parametrize("name", [n for n in SEQUENCES if "generate" in benthic.catalogue()[n].tasks])
def test_samples_are_sequences_like_the_data(name):
    model = fit(name)
    drawn = model.sample(3, length=7, seed=1)
    assert len(drawn) == 3 and all(len(sequence) == 7 for sequence in drawn)
    assert type(drawn[0]) is type(data_for(name)[0])
    same(drawn, model.sample(3, length=7, seed=1))
    with pytest.raises(ValueError, match=f"{name}.sample: "):
        model.sample(0)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_ragged_sequences_are_taken(name):
    model = fit(name, RAGGED)
    if hasattr(model, "predict"):
        assert [len(path) for path in model.predict(RAGGED)] == [len(sequence) for sequence in RAGGED]
    if hasattr(model, "likelihood"):
        assert model.likelihood(RAGGED).value.shape == (len(RAGGED),)


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no sequences|0 sample"),
        ([np.zeros((0, 2)), np.zeros((3, 2))], "length 0|no steps|empty"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], "column|width|feature"),
        (np.full((2, 5, 2), np.inf), "infinity"),
        (np.zeros((2, 3, 4, 5)), "dimension|shape"),
    ],
    ids=["none", "empty", "widths", "inf", "four dimensions"],
)
def test_unusable_sequences_get_one_sentence(name, rows, words):
    labels = labels_for(name, STEPS) if "label" in benthic.catalogue()[name].tasks else None
    with pytest.raises(ValueError, match=words) as caught:
        make(name).fit(rows, labels)
    assert str(caught.value).startswith(f"{name}.fit: ") and len(str(caught.value)) < 400


@pytest.mark.parametrize("name", SEQUENCES)
def test_tensors_without_numbers_and_whole_numbers_beyond_floating_point(name):
    model = fit(name)
    verb = next(v for v in ("predict", "likelihood", "log_prob") if hasattr(model, v))
    with pytest.raises(ValueError, match=f"{name}.{verb}: .*'meta'"):
        getattr(model, verb)(torch.zeros(2, 3, 2, device="meta"))
    if name in OF_NUMBERS:
        with pytest.raises(ValueError, match=f"{name}.{verb}: .*too large for floating point"):
            getattr(model, verb)([[[1, 10**400]] * 3] * 2)
