from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.stats import norm
from sklearn import metrics as peer

from benthic import metrics
from benthic.base.errors import InvalidInput
from tests.metrics.strategies import assert_same, few, scored


@pytest.mark.spec("I-01")
@few
@given(scored())
def test_roc_has_every_threshold_of_scikit_learn(data):
    y, s, w = data
    found = metrics.roc_curve(y, s, sample_weight=w)
    false, true, thresholds = peer.roc_curve(y, s, sample_weight=w, drop_intermediate=False)
    assert_same(found.false_positive_rate, false)
    assert_same(found.true_positive_rate, true)
    assert found.thresholds.tolist() == thresholds.tolist()
    # the area by trapezoids is the share of pairs
    assert_same(found.area.value, np.trapezoid(found.true_positive_rate, found.false_positive_rate))


@pytest.mark.spec("I-01")
@few
@given(scored())
def test_precision_and_recall_are_those_of_scikit_learn(data):
    y, s, w = data
    found = metrics.precision_recall_curve(y, s, sample_weight=w)
    precision, recall, thresholds = peer.precision_recall_curve(y, s, sample_weight=w)
    assert_same(found.precision, precision)
    assert_same(found.recall, recall)
    assert found.thresholds.tolist() == thresholds.tolist()
    assert_same(found.average_precision.value, -np.sum(np.diff(found.recall) * found.precision[:-1]))


@pytest.mark.spec("I-01")
@few
@given(scored())
def test_both_errors_over_thresholds(data):
    y, s, w = data
    found = metrics.det_curve(y, s, sample_weight=w)
    false, missed, thresholds = peer.det_curve(y, s, sample_weight=w)
    ours = dict(
        zip(
            found.thresholds.tolist(),
            zip(found.false_positive_rate, found.false_negative_rate, strict=True),
            strict=True,
        )
    )
    for threshold, a, b in zip(thresholds.tolist(), false, missed, strict=True):
        assert_same(ours[threshold], (a, b))
    x, z = found.false_positive_rate, found.false_negative_rate
    # on the segment where the two rates cross, both equal the equal error rate
    i = int(np.argmax(x >= z))
    t = (found.equal_error_rate - x[i - 1]) / (x[i] - x[i - 1]) if x[i] > x[i - 1] else None
    if t is not None:
        assert_same(z[i - 1] + t * (z[i] - z[i - 1]), found.equal_error_rate)


@pytest.mark.spec("I-01")
def test_two_normal_laws_have_the_area_of_the_textbook():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 4000)
    scores = rng.normal(size=8000) + 1.5 * y
    found = metrics.roc_curve(y, scores)
    assert abs(found.area.value - norm.cdf(1.5 / np.sqrt(2))) < 4 * found.area.stderr
    # equal error where the threshold is in the middle; each rate is known to sqrt(p (1 - p) / n)
    wanted = norm.cdf(-0.75)
    error = metrics.det_curve(y, scores).equal_error_rate
    assert abs(error - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 4000)


@pytest.mark.spec("I-01")
def test_average_precision_error_is_its_spread():
    rng = np.random.default_rng(2)
    found = []
    for _ in range(300):
        y = rng.random(400) < 0.3
        found.append(metrics.average_precision(y, rng.normal(size=400).round(1) + y))
    found = np.array(found)
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(ddof=1), rel=0.13)  # known to 4 %


@pytest.mark.spec("I-01")
def test_infinite_scores_rank_and_extreme_ties_hold():
    assert metrics.auc([0, 1, 1], [-np.inf, 0.0, np.inf]).value == 1.0
    found = metrics.roc_curve(["n", "p", "n", "p"], [0.0, -0.0, 0.0, 0.0], positive="p")
    assert found.true_positive_rate.tolist() == [0.0, 1.0]
    assert found.area.value == 0.5


@pytest.mark.spec("I-01")
def test_tensors_stay_tensors():
    y, s = torch.tensor([0, 1, 1]), torch.tensor([0.2, 0.2, 0.9])
    for made in (metrics.roc_curve, metrics.precision_recall_curve, metrics.det_curve):
        ours, plain = made(y, s), made(y.numpy(), s.numpy())
        for name in ("thresholds", "false_positive_rate", "precision"):
            if hasattr(ours, name):
                assert isinstance(getattr(ours, name), torch.Tensor)
                np.testing.assert_array_equal(getattr(ours, name), getattr(plain, name))


@pytest.mark.spec("I-01")
def test_pictures_draw_the_curves():
    y, s = [0, 1, 0, 1, 1], [0.1, 0.3, 0.35, 0.8, 0.9]
    roc = metrics.roc_curve(y, s)
    line = roc.plot().axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), roc.false_positive_rate)
    both = metrics.draw_precision_recall(
        {"one": metrics.precision_recall_curve(y, s), "two": metrics.precision_recall_curve(y, s)}
    )
    assert [text.get_text()[:3] for text in both.axes[0].get_legend().get_texts()] == ["one", "two"]
    det = metrics.det_curve(y, s).plot(title="errors")
    assert det.axes[0].get_title() == "errors" and np.isfinite(det.axes[0].lines[0].get_xdata()).all()


@pytest.mark.spec("I-01")
@pytest.mark.parametrize("made", [metrics.roc_curve, metrics.precision_recall_curve, metrics.det_curve])
@pytest.mark.parametrize(
    ("y", "scores", "options", "words"),
    [
        ([1, 1], [0.1, 0.2], {}, "one class"),
        ([0, 1], [0.1, float("nan")], {}, "NaN"),
        ([0, 1], [0.1], {}, "rows must match"),
        ([0, 1], [0.1, 0.2], {"sample_weight": [1, -1]}, "negative"),
        (["a", "b"], [0.1, 0.2], {}, "positive="),
        ([], [], {}, "no rows"),
        ([0, 1], ["low", "high"], {}, "must be numbers"),
    ],
)
def test_bad_input(made, y, scores, options, words):
    with pytest.raises(InvalidInput, match=words):
        made(y, scores, **options)
