"""The chain field against sums over every labeling, finite differences and logistic regression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import benthic
from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged
from benthic.chains.conditional_random_field import ConditionalRandomField
from benthic.chains.crf import Loss, Weights, normalizers, path_scores

pytestmark = pytest.mark.spec("H-05")

D, K = 2, 3


def problem(lengths=(3, 1, 4), seed=0):
    noise = torch.Generator().manual_seed(seed)
    series = Ragged(torch.randn(sum(lengths), D, generator=noise, dtype=torch.float64), torch.tensor(lengths))
    codes = torch.randint(K, (sum(lengths),), generator=noise)
    vector = torch.randn(D * K + 3 * K + K * K, generator=noise, dtype=torch.float64)
    return series, codes, Weights.of(vector, D, K)


def score_by_hand(weights, x, labels):
    total = weights.first[labels[0]] + weights.last[labels[-1]]
    total = total + sum(x[t] @ weights.features[:, s] + weights.labels[s] for t, s in enumerate(labels))
    return float(total + sum(weights.moves[a, b] for a, b in itertools.pairwise(labels)))


def test_scores_and_normalizers_are_sums_over_all_labelings():
    series, codes, weights = problem()
    parts = series.split()
    for i, (x, labels) in enumerate(zip(parts, codes.split(series.lengths.tolist()), strict=True)):
        scores = [score_by_hand(weights, x, path) for path in itertools.product(range(K), repeat=len(x))]
        assert float(normalizers(weights, series)[i]) == pytest.approx(np.logaddexp.reduce(scores), rel=1e-11)
        by_hand = score_by_hand(weights, x, labels.tolist())
        assert float(path_scores(weights, series, codes)[i]) == pytest.approx(by_hand, rel=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_gradient_is_that_of_finite_differences_and_of_autograd(alpha):
    series, codes, weights = problem()
    loss = Loss(series, codes, K, alpha)
    seen, vector = loss.seen().vector(), weights.vector()
    value, gradient = loss(vector, seen)
    direct = -(path_scores(weights, series, codes) - normalizers(weights, series)).sum()
    held = weights._replace(labels=torch.zeros(K).double()).vector()
    assert float(value) == pytest.approx(float(direct + 0.5 * alpha * held @ held), rel=1e-11)
    for i in range(len(vector)):
        step = torch.zeros_like(vector)
        step[i] = 1e-5
        slope = (loss(vector + step, seen)[0] - loss(vector - step, seen)[0]) / 2e-5
        assert float(gradient[i]) == pytest.approx(float(slope), abs=1e-7)
    total, counts = loss._expected_on_device(weights)
    assert total == pytest.approx(loss.expected(weights)[0], rel=1e-12)
    torch.testing.assert_close(counts.vector(), loss.expected(weights)[1].vector(), rtol=1e-9, atol=1e-11)


def speech(n=60, seed=0):
    """Two sticky regimes under noisy features; a single step says little, its neighbors help."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        state, labels = rng.integers(2), []
        for _ in range(rng.integers(5, 25)):
            state = state if rng.random() < 0.92 else 1 - state
            labels.append(("rest", "run")[state])
        labels = np.array(labels)
        X.append(np.where(labels == "run", 0.7, -0.7)[:, None] + rng.normal(size=(len(labels), 2)))
        y.append(labels.tolist())
    return X, y


def test_neighbors_help_and_marginals_and_paths_are_exact():
    X, y = speech()
    more, truth = speech(seed=1)
    model = ConditionalRandomField(alpha=0.1).fit(X, y)
    assert model.converged_ and model.classes_.tolist() == ["rest", "run"]
    from sklearn.linear_model import LogisticRegression

    alone = LogisticRegression().fit(np.concatenate(X), np.concatenate(y))
    single = alone.score(np.concatenate(more), np.concatenate(truth))
    assert model.score(more, truth) > single + 0.05
    assert isinstance(model.predict(more)[0], list) and isinstance(model.predict(more)[0][0], str)
    short = more[0][:6]
    weights = model._weights()
    paths = list(itertools.product(range(2), repeat=6))
    scores = np.array([score_by_hand(weights, torch.as_tensor(short), path) for path in paths])
    p = np.exp(scores - np.logaddexp.reduce(scores))
    expected = np.array([[p[[path[t] == s for path in paths]].sum() for s in range(2)] for t in range(6)])
    np.testing.assert_allclose(model.predict_proba([short])[0], expected, atol=1e-10)
    best = model.classes_[list(paths[int(scores.argmax())])].tolist()
    assert model.predict([short])[0] == best
    assert model.label_log_prob([short], [best])[0] == pytest.approx(np.log(p.max()), rel=1e-9)


def test_sequences_of_one_step_are_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1, 3))
    y = (X[:, 0] @ rng.normal(size=(3, 3)) + rng.gumbel(size=(200, 3))).argmax(1)[:, None]
    # no moves, so only start and end stand beside the intercept, which takes their part since it is free
    model = ConditionalRandomField(alpha=2.0, tol=1e-9).fit(X, y)
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X[:, 0], y.ravel())
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], peer.predict_proba(X[:, 0]), atol=1e-5)
    np.testing.assert_allclose(model.coef_ - model.coef_.mean(0), peer.coef_ - peer.coef_.mean(0), atol=1e-4)
    assert np.abs(model.transitions_).max() < 1e-6


def test_the_penalty_shrinks_and_the_end_is_a_stationary_point():
    X, y = speech(20)
    small, large = ConditionalRandomField(alpha=0.01).fit(X, y), ConditionalRandomField(alpha=1000.0).fit(X, y)
    assert np.abs(large.coef_).max() < 0.2 * np.abs(small.coef_).max()
    series = Ragged.of([torch.as_tensor(part) for part in X])
    codes = torch.as_tensor(np.searchsorted(small.classes_, np.concatenate(y)))
    loss = Loss(series, codes, 2, 0.01)
    value, gradient = loss(small._weights().vector(), loss.seen().vector())
    assert float(gradient.abs().max()) <= 1e-6 * len(series.values)
    assert float(value) == pytest.approx(small.loss_, rel=1e-10)


def test_forms_of_labels_and_features():
    X = np.random.default_rng(0).normal(size=(6, 8, 2))
    y = (X[:, :, 0] > 0).astype(int)
    model = ConditionalRandomField().fit(X, y)
    assert model.predict(X).shape == (6, 8) and model.predict(X).dtype == y.dtype
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32
    tensor = ConditionalRandomField().fit(torch.tensor(X), torch.tensor(y))
    assert isinstance(tensor.predict(torch.tensor(X)), torch.Tensor)
    np.testing.assert_array_equal(tensor.predict(torch.tensor(X)).numpy(), model.predict(X))
    words = ConditionalRandomField().fit(list(X), ["".join("ab"[v] for v in row) for row in y])
    assert words.predict([X[0]])[0] == "".join("ab"[v] for v in model.predict(X[:1])[0])
    signs = ConditionalRandomField().fit(X, 2 * y - 1)
    np.testing.assert_array_equal(signs.predict(X), 2 * model.predict(X) - 1)
    listed = model.predict([X[0], X[1][:3]])
    assert [len(part) for part in listed] == [8, 3]


def test_saved_and_loaded_fields_agree(tmp_path):
    X, y = speech(10)
    model = ConditionalRandomField().fit(X, y)
    loaded = benthic.load(model.save(tmp_path / "field.safetensors"))
    assert loaded.summary() == model.summary() and loaded.predict(X) == model.predict(X)
    for ours, theirs in zip(model.predict_proba(X), loaded.predict_proba(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(model.plot().axes) >= 2


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([["a", "b"], ["a"]], "sequence 1 has 2 steps and 1 labels"),
        ([["a", "b"]], "inconsistent numbers of samples"),
        ([["a", "a"], ["a", "a"]], "only one label, 'a'"),
        ([["a", "b"], [1, 2]], "several types"),
        ([[0.0, np.nan], [1.0, 0.0]], "every step needs a label"),
        (None, "requires y to be passed"),
        ("abab", "labels of every step"),
    ],
)
def test_bad_labels(y, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        ConditionalRandomField().fit(np.zeros((2, 2, 1)), y)
    assert str(caught.value).startswith("ConditionalRandomField.fit: ")


def test_other_bad_input():
    X, y = speech(5)
    with pytest.raises(InvalidInput, match="alpha is -1"):
        ConditionalRandomField(alpha=-1).fit(X, y)
    model = ConditionalRandomField().fit(X, y)
    with pytest.raises(InvalidInput, match="label_log_prob: y holds 'walk', which fit never saw"):
        model.label_log_prob(X, [["walk"] * len(part) for part in y])
    with pytest.raises(InvalidInput, match="NaN"):
        model.predict([[[np.nan, 0.0]]])
    with pytest.raises(InvalidInput, match="expecting 2"):
        model.predict(np.zeros((1, 2, 3)))
    with pytest.raises(Exception, match="not fitted yet"):
        ConditionalRandomField().predict(X)
