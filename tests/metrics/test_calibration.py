from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve as peer_curve

from benthic import metrics
from benthic.base.errors import InvalidInput
from tests.metrics.strategies import few, generators


@pytest.mark.spec("I-01")
@few
@given(generators(), st.integers(2, 60), st.sampled_from(["uniform", "quantile"]), st.sampled_from([1, 2, 5, 10]))
def test_curve_is_that_of_scikit_learn(rng, n, strategy, bins):
    y = rng.random(n) < 0.5
    y[:2] = [True, False]
    p = rng.integers(0, 21, n) / 20  # many on the edges of bins
    ours = metrics.calibration_curve(y, p, bins=bins, strategy=strategy)
    seen, said = peer_curve(y, p, n_bins=bins, strategy=strategy)
    np.testing.assert_allclose(ours.observed, seen, atol=1e-12)
    np.testing.assert_allclose(ours.predicted, said, atol=1e-12)
    assert ours.weight.sum() == n


def by_hand(confidence, right, weights, bins):
    """Expected calibration error as the definition says it."""
    total, found = weights.sum(), 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        mine = (confidence > low) & (confidence <= high) if b else confidence <= high
        if weights[mine].sum() > 0:
            gap = np.average(right[mine], weights=weights[mine]) - np.average(confidence[mine], weights=weights[mine])
            found += weights[mine].sum() / total * abs(gap)
    return found


@pytest.mark.spec("I-01")
@few
@given(generators(), st.integers(2, 5), st.booleans())
def test_expected_error_is_its_definition(rng, k, weighted):
    table = rng.dirichlet(np.ones(k), 40)
    y = np.concatenate([np.arange(k), rng.integers(k, size=40 - k)])
    w = rng.exponential(size=40) if weighted else None
    unit = np.ones(40) if w is None else w
    found = metrics.expected_calibration_error(y, table, bins=8, sample_weight=w)
    assert found.value == pytest.approx(by_hand(table.max(1), table.argmax(1) == y, unit, 8), abs=1e-12)
    if k == 2:
        found = metrics.expected_calibration_error(y, table[:, 1], bins=8, sample_weight=w)
        assert found.value == pytest.approx(by_hand(table[:, 1], y == 1, unit, 8), abs=1e-12)
        assert metrics.calibration_curve(y, table[:, 1], bins=8, sample_weight=w).error == found


@pytest.mark.spec("I-01")
def test_norms_are_ordered_and_of_one_bin_the_same():
    rng = np.random.default_rng(0)
    p, y = rng.random(200), rng.integers(2, size=200)
    one, two, worst = (metrics.expected_calibration_error(y, p, norm=norm).value for norm in ("l1", "l2", "max"))
    assert one < two < worst
    gaps = [metrics.expected_calibration_error(y, p, bins=1, norm=norm) for norm in ("l1", "l2", "max")]
    for gap in gaps:
        assert gap.value == pytest.approx(abs(y.mean() - p.mean()))
        assert gap.stderr == pytest.approx((y - p).std(ddof=1) / np.sqrt(200))


@pytest.mark.spec("I-01")
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_error_bar_is_the_spread(norm):
    rng = np.random.default_rng(1)

    def draw():
        p = rng.random(1000)
        return metrics.expected_calibration_error(rng.random(1000) < p**2.5, p, bins=4, norm=norm)

    found = np.array([draw() for _ in range(300)])
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(ddof=1), rel=0.13)  # known to 4 %


@pytest.mark.spec("I-01")
def test_a_calibrated_model_is_within_its_error_bars():
    rng = np.random.default_rng(3)
    p = rng.random(20_000)
    curve = metrics.calibration_curve(rng.random(20_000) < p, p, bins=20)
    z = (curve.observed - curve.predicted) / curve.stderr
    assert np.abs(z).max() < 4
    assert (z**2).sum() < 45.3  # the 0.999 quantile of chi-square with 20 degrees of freedom


@pytest.mark.spec("I-01")
@few
@given(generators(), st.sampled_from(["uniform", "quantile"]))
def test_whole_weights_are_repeated_rows(rng, strategy):
    y, p, w = rng.integers(2, size=30), rng.random(30), rng.integers(1, 4, 30)
    y[:2] = [0, 1]
    ours = metrics.calibration_curve(y, p, bins=5, strategy=strategy, sample_weight=w)
    rows = np.repeat(np.arange(30), w)
    again = metrics.calibration_curve(y[rows], p[rows], bins=5, strategy=strategy, sample_weight=np.ones(len(rows)))
    np.testing.assert_allclose(ours.observed, again.observed, atol=1e-12)
    np.testing.assert_allclose(ours.edges, again.edges)
    assert ours.error.value == pytest.approx(again.error.value, abs=1e-12)


@pytest.mark.spec("I-01")
def test_picture_and_tensors():
    y, p = torch.tensor([0, 0, 1, 1]), torch.tensor([0.1, 0.3, 0.6, 0.9])
    curve = metrics.calibration_curve(y, p, bins=4)
    assert isinstance(curve.observed, torch.Tensor)
    drawn = curve.plot().axes[0].lines[0]
    np.testing.assert_allclose(drawn.get_ydata(), curve.observed)
    names = metrics.calibration_curve(["no", "no", "yes", "yes"], p.numpy(), positive="yes", bins=4)
    np.testing.assert_allclose(names.observed, curve.observed)


@pytest.mark.spec("I-01")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.calibration_curve([0, 1], [0.1, 1.2]), "between 0 and 1"),
        (lambda: metrics.calibration_curve([0, 1], [0.1, np.nan]), "NaN"),
        (lambda: metrics.calibration_curve([0, 0], [0.1, 0.2]), "one class"),
        (lambda: metrics.calibration_curve([0, 1], [[0.1, 0.9]] * 2), "those of one class"),
        (lambda: metrics.calibration_curve([0, 1], [0.1, 0.9], bins=0), "at least one"),
        (lambda: metrics.calibration_curve([0, 1], [0.1, 0.9], strategy="uniforme"), "did you mean 'uniform'"),
        (lambda: metrics.expected_calibration_error([0, 1], [0.1, 0.9], norm="l3"), "none of l1"),
        (lambda: metrics.expected_calibration_error([0, 1], [0.1, 0.9], sample_weight=[-1, 1]), "negative"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
