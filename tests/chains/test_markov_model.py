"""Markov models of symbols against counts by hand, sums over all continuations, and planted chains."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import benthic
from benthic import MarkovModel
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("H-05")

TEXT = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "the end"]


def kneser_ney(sequences, order, size, cuts, context, symbol):
    """Interpolated Kneser-Ney in plain Python; contexts begin with marks '<'."""
    padded = [["<"] * order + list(part) for part in sequences]
    windows = [tuple(part[i - order : i + 1]) for part in padded for i in range(order, len(part))]
    below = 1 / size
    for length in range(order + 1):
        if length == order:
            counts = Counter(windows)
        else:
            kinds = {window[order - length - 1 :] for window in windows}
            counts = Counter(kind[1:] for kind in kinds)
        follows = defaultdict(dict)
        for gram, count in counts.items():
            follows[gram[:-1]][gram[-1]] = count
        after = follows.get(tuple(context[order - length :]))
        if after is None:
            continue
        total = sum(after.values())
        below = max(after.get(symbol, 0) - cuts[length], 0) / total + cuts[length] * len(after) / total * below
    return below


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_kneser_ney_equals_the_formula(order):
    model = MarkovModel(order, discount=0.6).fit(TEXT)
    size = len(model.symbols_)
    for context in ("the", "og ", "dnd", "tttt"):
        tail = list(context)[-order:] if order else []
        tail = ["<"] * (order - len(tail)) + tail
        found = model.predict_proba([context])[0]
        for symbol, p in zip(model.symbols_, found, strict=True):
            assert p == pytest.approx(kneser_ney(TEXT, order, size, [0.6] * 4, tail, symbol), abs=1e-13)


@pytest.mark.parametrize("settings", [{}, {"smoothing": "additive"}, {"smoothing": "additive", "alpha": 0.0}])
@pytest.mark.parametrize("ends", [False, True])
def test_next_symbols_have_probabilities_that_sum_to_one(settings, ends):
    model = MarkovModel(3, ends=ends, **settings).fit(TEXT)
    found = model.predict_proba(["the", "a", "dododo", "ttt"])
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-12)
    assert found.shape[1] == len(model.symbols_) + ends


@pytest.mark.parametrize("smoothing", ["kneser-ney", "additive"])
def test_all_sequences_of_a_length_have_probability_one(smoothing):
    model = MarkovModel(2, smoothing=smoothing).fit(["abca", "bca"])
    words = ["".join(letters) for letters in product("abc", repeat=4)]
    assert np.exp(model.log_prob(words)).sum() == pytest.approx(1.0, abs=1e-12)
    ending = MarkovModel(1, smoothing=smoothing, ends=True).fit(["ab", "b"])
    short = ["".join(letters) for n in range(1, 15) for letters in product("ab", repeat=n)]
    empty = ending._chances(np.array([[3]]))[0, 2]  # a sequence without steps
    assert np.exp(ending.log_prob(short)).sum() + empty == pytest.approx(1.0, abs=0.02)


def test_additive_smoothing_by_hand():
    model = MarkovModel(1, smoothing="additive", alpha=0.5).fit([[0, 1, 1, 0], [1, 1]])
    np.testing.assert_allclose(model.transition_matrix(), [[0.25, 0.75], [1.5 / 4, 2.5 / 4]])
    logs = np.log([1.5 / 3, 0.75, 1.5 / 4])
    assert model.log_prob([[0, 1, 0]])[0] == pytest.approx(logs.sum())
    assert model.perplexity([[0, 1, 0]]) == pytest.approx(np.exp(-logs.mean()))
    assert model.likelihood([[0, 1]]).measure == "mass"


def test_shares_without_smoothing_fall_back_to_the_longest_known_context():
    model = MarkovModel(2, smoothing="additive", alpha=0.0).fit(["aab", "bab"])
    found = model.predict_proba(["bb"])[0]  # 'bb' was never seen; after 'b' came only 'a'
    assert found.tolist() == [1.0, 0.0]
    assert model.log_prob(["bbb"])[0] == -np.inf


def planted(n=60, t=400, seed=0):
    rng = np.random.default_rng(seed)
    P = np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.25, 0.25, 0.5]])
    X = np.zeros((n, t), dtype=int)
    for i in range(1, t):
        X[:, i] = (P[X[:, i - 1]].cumsum(1) < rng.random((n, 1))).sum(1)
    return P, X


def test_a_planted_chain_and_its_stationary_law_are_found():
    P, X = planted()
    model = MarkovModel(1, random_state=0).fit(X)
    # some 8000 moves from each symbol: standard errors below sqrt(0.25 / 8000) = 0.006
    np.testing.assert_allclose(model.transition_matrix(), P, atol=0.025)
    values, vectors = np.linalg.eig(model.transition_matrix().T)
    law = np.real(vectors[:, np.argmax(values.real)])
    np.testing.assert_allclose(model.stationary(), law / law.sum(), atol=1e-12)
    second = MarkovModel(2).fit(X)
    np.testing.assert_allclose(second.stationary(), model.stationary(), atol=0.01)
    assert MarkovModel(0).fit(X).stationary() == pytest.approx(np.bincount(X.ravel()) / X.size, abs=1e-3)
    drawn = model.sample(300, length=200, seed=1)
    assert drawn.shape == (300, 200) and drawn.dtype == X.dtype
    again = MarkovModel(1).fit(drawn)
    np.testing.assert_allclose(again.transition_matrix(), P, atol=0.035)


def test_backing_off_beats_adding_on_new_text():
    rng = np.random.default_rng(0)
    words = ["deep", "water", "sand", "ridge", "vent", "crab", "eel", "reef"]
    X = [" ".join(rng.choice(words, size=12)) for _ in range(30)]
    new = [" ".join(rng.choice(words, size=12)) for _ in range(10)]
    values = [MarkovModel(order).fit(X).perplexity(new) for order in (0, 1, 3)]
    assert values[0] > values[1] > values[2]
    assert values[2] < MarkovModel(3, smoothing="additive").fit(X).perplexity(new)


def test_counts_add_over_batches():
    model = MarkovModel(2, symbols=sorted(set("".join(TEXT))))
    for part in TEXT:
        model.partial_fit([part])
    whole = MarkovModel(2).fit(TEXT)
    np.testing.assert_array_equal(model.grams_, whole.grams_)
    np.testing.assert_array_equal(model.counts_, whole.counts_)
    assert model.log_prob(TEXT).tolist() == whole.log_prob(TEXT).tolist()


def test_samples_go_on_from_what_is_given_and_end_by_themselves():
    model = MarkovModel(4, ends=True, random_state=0).fit(TEXT * 3)
    drawn = model.sample(20, length=60, given=["the "], seed=0)
    assert all(text.startswith("the ") and len(text) <= 60 for text in drawn)
    assert len({len(text) for text in drawn}) > 1
    assert model.sample(3) == model.sample(3) and model.sample(3, seed=1) != model.sample(3, seed=2)
    lists = MarkovModel(1).fit([["x", "y"], [("t", 1), "x"]])
    assert all(step in (["x", "y", ("t", 1)]) for part in lists.sample(5, length=6, seed=0) for step in part)
    with pytest.raises(InvalidInput, match="one sequence or 3"):
        model.sample(3, given=["a", "c"])


def test_tensors_files_pictures_and_words(tmp_path):
    _, X = planted(n=5, t=30)
    model = MarkovModel(2, random_state=0).fit(torch.from_numpy(X))
    assert isinstance(model.sample(2, length=5), torch.Tensor)
    assert isinstance(model.log_prob(torch.from_numpy(X)), torch.Tensor)
    np.testing.assert_allclose(model.log_prob(torch.from_numpy(X)).numpy(), model.log_prob(X), rtol=1e-6)
    loaded = benthic.load(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.log_prob(X), model.log_prob(X))
    assert loaded.summary() == model.summary() and "perplexity" in model.summary()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert model.plot().axes and MarkovModel(0).fit(TEXT).plot().axes and MarkovModel(1).fit(TEXT).plot().axes
    assert "not fitted" in clone(model).summary()


def test_large_alphabets_and_high_orders_do_not_overflow():
    rng = np.random.default_rng(0)
    X = rng.integers(5000, size=(20, 300))
    model = MarkovModel(8).fit(X)
    assert np.isfinite(model.log_prob(X)).all()
    np.testing.assert_allclose(model.predict_proba(X[:2]).sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("X", "settings", "says"),
    [
        ([], {}, "no sequences"),
        (["ab", ""], {}, "sequence 1 has length 0"),
        ("abc", {}, "X is one string"),
        ([1, 2], {}, "one long sequence is passed as a list of one"),
        (np.array([[0, -2]]), {}, "negative number -2"),
        ([[0, -1]], {}, "step 1 of sequence 0 is missing, and this model takes no missing"),
        ([[0.5]], {}, "0.5, which is not a symbol"),
        ([["a"], "b"], {}, "mixes strings"),
        ([[["a"]]], {}, "cannot be a symbol"),
        (["ab"], {"order": -1}, "order is -1"),
        (["ab"], {"smoothing": "additiv"}, "did you mean 'additive'"),
        (["ab"], {"alpha": -1.0}, "alpha is -1"),
        (["ab"], {"discount": 1.5}, "discount is 1.5"),
        (["ab"], {"symbols": "bb"}, "each once"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(X, settings, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        MarkovModel(**settings).fit(X)
    assert str(caught.value).startswith("MarkovModel.fit: ")


def test_later_calls_are_checked_too():
    with pytest.raises(NotFittedError):
        MarkovModel().log_prob(["a"])
    model = MarkovModel(2).fit(["abab"])
    with pytest.raises(InvalidInput, match=r"MarkovModel.perplexity: step 1 of sequence 0 is the symbol 'c'"):
        model.perplexity(["acb"])
    with pytest.raises(InvalidInput, match="only order 1"):
        model.transition_matrix()
    with pytest.raises(InvalidInput, match="fit with ends=False"):
        MarkovModel(1, ends=True).fit(["ab"]).stationary()
    with pytest.raises(InvalidInput, match="up to 4096"):
        MarkovModel(13).fit(["ab"]).stationary()
    with pytest.raises(InvalidInput, match="length is 0"):
        model.sample(1, length=0)
