"""The way of sequences into a model and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged, SequenceEstimator, read_sequences
from benthic.base.symbols import decode, encode, flatten, learn_symbols

pytestmark = pytest.mark.spec("H-05")


class _Echo(SequenceEstimator):
    """Gives back what it was given."""

    def fit(self, X, y=None):
        self._arrive_sequences(X, "fit", reset=True, missing=True)
        self.fitted_ = True
        return self

    def echo(self, X):
        data, origin = self._arrive_sequences(X, "echo", missing=True)
        return self._sequences_out(data, origin, data=True)


class _Letters(SequenceEstimator):
    """Gives back the symbols it was given."""

    def fit(self, X, y=None):
        self._arrive_symbols(X, "fit", reset=True, missing=True)
        self.fitted_ = True
        return self

    def echo(self, X):
        return self._symbols_out(*self._arrive_symbols(X, "echo"))


@pytest.mark.parametrize(
    "X",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        torch.arange(24.0).reshape(2, 3, 4),
        torch.arange(6.0, dtype=torch.float64).reshape(2, 3),
    ],
)
def test_arrays_come_back_as_they_were(X):
    out = _Echo().fit(X).echo(X)
    assert type(out) is type(X) and out.dtype == X.dtype and out.shape == X.shape
    assert bool((out == X).all())


@pytest.mark.parametrize("wrap", [np.array, torch.tensor, list])
def test_lists_come_back_as_lists(wrap):
    X = [wrap([1.0, 2.0, 3.0]), wrap([4.0])]
    out = _Echo().fit(X).echo(X)
    assert isinstance(out, list) and [len(part) for part in out] == [3, 1]
    assert [np.asarray(part).tolist() for part in out] == [[1.0, 2.0, 3.0], [4.0]]
    assert isinstance(out[0], torch.Tensor) == (wrap is torch.tensor)


def test_ragged_sequences_are_split_and_padded():
    parts = [torch.arange(4.0).reshape(2, 2), torch.arange(6.0).reshape(3, 2)]
    some = Ragged.of(parts)
    assert len(some) == 2 and some.offsets.tolist() == [0, 2, 5] and some.numbers().tolist() == [0, 0, 1, 1, 1]
    wide, mask = some.padded(fill=-1.0)
    assert wide.shape == (2, 3, 2) and (wide[0, 2] == -1).all() and mask.tolist() == [[True, True, False], [True] * 3]
    assert all(torch.equal(a, b) for a, b in zip(some.split(), parts, strict=True))


def test_mixed_precision_and_missing_marks():
    data, origin = read_sequences([np.zeros(2, np.float32), np.zeros(3)])
    assert data.values.dtype == torch.float64 and origin.dtype == "float64"
    data, _ = read_sequences([[1.0, None], [2.0]])
    assert bool(torch.isnan(data.values[1, 0]))
    assert read_sequences(np.array([[1, 2], [3, 4]]))[1].dtype == "float64"


@pytest.mark.parametrize(
    "X",
    [
        ["ab", "ba a"],
        [["x", "y"], ["y"]],
        [[3, 1], [2, 2, 2]],
        np.array([[3, 1], [2, 2]]),
        np.array([["u", "v"], ["v", "v"]]),
        [("a", 1), ("b",)],
    ],
)
def test_symbols_come_back_as_they_were(X):
    out = _Letters().fit(X).echo(X)
    if isinstance(X, np.ndarray):
        np.testing.assert_array_equal(out, X)
    else:
        assert [list(part) for part in out] == [list(part) for part in X]


def test_symbols_are_sorted_where_they_can_be():
    assert _Letters().fit(["cab"]).symbols_.tolist() == ["a", "b", "c"]
    assert _Letters().fit([[2, 0, -1, 1]]).symbols_.tolist() == [0, 1, 2]
    assert _Letters().fit([["b", 1, None]]).symbols_.tolist() == ["b", 1]
    flat = flatten([["b", None, "a"]])
    codes = encode(flat, learn_symbols(flat))
    assert codes.tolist() == [1, -1, 0]
    assert decode([np.array([0, 1])], np.array(["a", "b"]), "strings") == ["ab"]


def test_emoji_and_tensors_are_symbols():
    model = _Letters().fit(["🐟🐠", "🐟"])
    assert model.echo(["🐠🐟"]) == ["🐠🐟"]
    X = torch.tensor([[5, 7], [7, 7]])
    out = _Letters().fit(X).echo(X)
    assert isinstance(out, torch.Tensor) and torch.equal(out, X)


def test_unknown_symbols_are_named_with_their_place():
    model = _Letters().fit(["ab", "ba"])
    with pytest.raises(InvalidInput, match=r"_Letters.echo: step 2 of sequence 1 is the symbol '!', which is unknown"):
        model.echo(["ab", "ab!"])


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.zeros((0, 3)), "no sequences"),
        (np.zeros((2, 0)), "sequence 0 has length 0"),
        (np.zeros((2, 3, 0)), "steps of 0 numbers"),
        ([np.zeros((2, 3)), np.zeros((2, 2))], "sequence 1 has 2 numbers a step"),
        ([np.zeros((2, 3, 4))], r"shape \(2, 3, 4\)"),
        ([torch.zeros(2), np.zeros(2)], "mixes tensors with arrays"),
        ([["a"]], "sequence 0 holds 'a' in row 0, where a number is needed"),
        ({"a": 1}, "X is a dict"),
        ([[1e200]], "squares overflow"),
        (torch.zeros(2, 2, dtype=torch.complex64), "Complex data not supported"),
    ],
)
def test_bad_input(X, says):
    with pytest.raises(InvalidInput, match=says):
        _Echo().fit(X)


def test_the_width_is_remembered():
    with pytest.raises(InvalidInput, match="X has 2 features a step, but _Echo is expecting 3"):
        _Echo().fit(np.zeros((2, 4, 3))).echo(np.zeros((2, 4, 2)))
