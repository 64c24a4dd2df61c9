from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import metrics as peer

from benthic import metrics
from benthic.base.errors import InvalidInput
from benthic.metrics.rows import _coded_there, coded
from tests.metrics.strategies import answered, assert_same, few, scored, tabled


def quietly(function, *args, **options):
    """scikit-learn's answer without its remarks on classes that are missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


@pytest.mark.spec("I-01")
@few
@given(answered())
def test_tables_and_agreement_are_those_of_scikit_learn(data):
    y, p, w = data
    found = metrics.confusion_matrix(y, p, sample_weight=w)
    assert_same(found.counts, peer.confusion_matrix(y, p, sample_weight=w))
    for over, name in (("truth", "true"), ("predicted", "pred"), ("all", "all")):
        assert_same(found.shares(over), quietly(peer.confusion_matrix, y, p, sample_weight=w, normalize=name))
    assert_same(metrics.accuracy(y, p, w).value, peer.accuracy_score(y, p, sample_weight=w))
    for adjusted in (False, True):
        theirs = quietly(peer.balanced_accuracy_score, y, p, sample_weight=w, adjusted=adjusted)
        assert_same(metrics.balanced_accuracy(y, p, w, adjusted=adjusted).value, theirs)
    assert_same(metrics.matthews(y, p, w).value, quietly(peer.matthews_corrcoef, y, p, sample_weight=w))
    for weights in (None, "linear", "quadratic"):
        theirs = peer.cohen_kappa_score(y, p, weights=weights, sample_weight=w)
        assert_same(metrics.cohen_kappa(y, p, weights, sample_weight=w).value, theirs)


@pytest.mark.spec("I-01", "I-02")
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@few
@given(data=answered(), empty=st.sampled_from([0.0, 1.0, math.nan]))
@example(data=(np.array([0, 1, 1]), np.array([3, 2, 2]), None), empty=math.nan)  # no class that is left has rows
def test_rates_are_those_of_scikit_learn(average, data, empty):
    y, p, w = data
    options = {"average": average, "sample_weight": w, "zero_division": empty}
    assert_same(metrics.precision(y, p, **options).value, quietly(peer.precision_score, y, p, **options))
    assert_same(metrics.recall(y, p, **options).value, quietly(peer.recall_score, y, p, **options))
    assert_same(metrics.fbeta(y, p, 0.5, **options).value, quietly(peer.fbeta_score, y, p, beta=0.5, **options))
    assert_same(metrics.f1(y, p, **options).value, quietly(peer.f1_score, y, p, **options))
    if not math.isnan(empty):
        assert_same(metrics.iou(y, p, **options).value, quietly(peer.jaccard_score, y, p, **options))
        assert_same(metrics.dice(y, p, **options).value, quietly(peer.f1_score, y, p, **options))


@pytest.mark.spec("I-01")
@few
@given(answered(classes=2, strings=False))
def test_two_classes_and_both_sides(data):
    y, p, w = data
    assert_same(metrics.precision(y, p, sample_weight=w).value, quietly(peer.precision_score, y, p, sample_weight=w))
    assert_same(metrics.recall(y, p, sample_weight=w).value, quietly(peer.recall_score, y, p, sample_weight=w))
    # the other side of a class is the class of the other side
    other = {"positive": 0, "sample_weight": w}
    assert_same(metrics.specificity(y, p, sample_weight=w).value, metrics.recall(y, p, **other).value)
    assert_same(metrics.negative_predictive_value(y, p, sample_weight=w).value, metrics.precision(y, p, **other).value)


@pytest.mark.spec("I-01")
@few
@given(answered())
def test_listed_classes_only(data):
    y, p, w = data
    labels = [y[1], y[0]]
    options = {"labels": labels, "average": "macro", "sample_weight": w}
    assert_same(metrics.recall(y, p, **options).value, quietly(peer.recall_score, y, p, **options))
    assert_same(metrics.precision(y, p, **options).value, quietly(peer.precision_score, y, p, **options))
    found = metrics.confusion_matrix(y, p, labels, w)
    assert_same(found.counts, peer.confusion_matrix(y, p, labels=labels, sample_weight=w))
    assert found.classes.tolist() == list(labels)


@pytest.mark.spec("I-01")
@few
@given(answered())
def test_the_report_has_every_class(data):
    y, p, w = data
    found = metrics.class_report(y, p, sample_weight=w)
    parts = quietly(peer.precision_recall_fscore_support, y, p, sample_weight=w)
    for ours, theirs in zip((found.precision, found.recall, found.f1), parts[:3], strict=True):
        assert_same([one.value for one in ours.values()], theirs)
    assert_same(list(found.support.values()), parts[3])
    assert len(str(found).splitlines()) == len(found.support) + 1


@pytest.mark.spec("I-01")
@few
@given(scored())
def test_areas_count_ties_exactly(data):
    y, s, w = data
    assert_same(metrics.auc(y, s, sample_weight=w).value, peer.roc_auc_score(y, s, sample_weight=w))
    assert_same(
        metrics.average_precision(y, s, sample_weight=w).value, peer.average_precision_score(y, s, sample_weight=w)
    )
    unit = np.ones(len(y)) if w is None else w
    pairs = unit[y][:, None] * unit[~y]
    gaps = s[y][:, None] - s[~y]
    assert_same(
        metrics.auc(y, s, sample_weight=w).value, (pairs * ((gaps > 0) + 0.5 * (gaps == 0))).sum() / pairs.sum()
    )


@pytest.mark.spec("I-01")
@few
@given(tabled())
def test_several_classes(data):
    y, table, w = data
    k = table.shape[1]
    scores = table[:, 1] if k == 2 else table
    for average in ("macro", "weighted"):
        found = metrics.multiclass_auc(y, table, average=average, sample_weight=w).value
        assert_same(found, peer.roc_auc_score(y, scores, multi_class="ovr", average=average, sample_weight=w))
        if k > 2:
            found = metrics.multiclass_auc(y, table, scheme="ovo", average=average).value
            assert_same(found, peer.roc_auc_score(y, table, multi_class="ovo", average=average))
    truth = np.eye(k)[y]
    for average in ("macro", "weighted", "micro"):
        found = metrics.multiclass_average_precision(y, table, average=average, sample_weight=w).value
        assert_same(found, peer.average_precision_score(truth, table, average=average, sample_weight=w))
    found = metrics.multiclass_auc(y, table, average="micro", sample_weight=w).value
    assert_same(found, peer.roc_auc_score(truth, table, average="micro", sample_weight=w))


@pytest.mark.spec("I-01")
@few
@given(tabled())
def test_probabilities(data):
    y, table, w = data
    k = table.shape[1]
    assert_same(metrics.log_loss(y, table, sample_weight=w).value, peer.log_loss(y, table, sample_weight=w))
    given_ = table[:, 1] if k == 2 else table
    assert_same(metrics.brier(y, table, sample_weight=w).value, peer.brier_score_loss(y, given_, sample_weight=w))
    distinct = table + 1e-3 * np.arange(k) + 1e-5 * np.arange(len(y))[:, None]
    for top in range(1, k):
        ours = metrics.top_k_accuracy(y, distinct, top, sample_weight=w).value
        if k > 2:
            assert_same(ours, peer.top_k_accuracy_score(y, distinct, k=top, sample_weight=w))
        else:
            assert_same(ours, peer.accuracy_score(y, distinct.argmax(1), sample_weight=w))


@pytest.mark.spec("I-01")
def test_ovo_with_whole_weights_is_that_of_repeated_rows():
    rng = np.random.default_rng(0)
    y, table, w = rng.integers(3, size=60), rng.dirichlet(np.ones(3), 60).round(1), rng.integers(1, 4, 60)
    for average in ("macro", "weighted"):
        options = {"scheme": "ovo", "average": average}
        repeated = metrics.multiclass_auc(np.repeat(y, w), np.repeat(table, w, 0), **options)
        assert_same(metrics.multiclass_auc(y, table, sample_weight=w, **options).value, repeated.value)


@pytest.mark.spec("I-01")
def test_ties_for_the_last_place_are_broken_by_lot():
    scores = [[0.4, 0.4, 0.2], [0.3, 0.3, 0.3]]
    # the first row is among two tied for one place, the second among three tied for one
    assert metrics.top_k_accuracy([0, 2], scores, k=1, classes=[0, 1, 2]).value == pytest.approx((1 / 2 + 1 / 3) / 2)


def rates(function, **options):
    return lambda y, p, w: function(y, p, average="macro", sample_weight=w, **options)


@pytest.mark.spec("I-01")
@pytest.mark.parametrize(
    "measure",
    [
        lambda y, p, w: metrics.balanced_accuracy(y, p, w),
        lambda y, p, w: metrics.matthews(y, p, w),
        lambda y, p, w: metrics.cohen_kappa(y, p, "quadratic", sample_weight=w),
        rates(metrics.precision),
        rates(metrics.specificity),
        rates(metrics.f1),
        rates(metrics.iou),
    ],
    ids=["balanced", "matthews", "kappa", "precision", "specificity", "f1", "iou"],
)
def test_standard_errors_are_the_spread_over_weighted_data_sets(measure):
    rng = np.random.default_rng(3)

    def draw():
        y = rng.choice(3, p=[0.5, 0.3, 0.2], size=300)
        return y, np.where(rng.random(300) < 0.7, y, rng.integers(3, size=300)), rng.uniform(0.5, 2, 300)

    found = np.array([measure(*draw()) for _ in range(300)])
    # the spread of 300 draws is itself known to 1/sqrt(600) = 4 %; three of those
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(ddof=1), rel=0.13)


@pytest.mark.spec("I-01")
@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_standard_errors_of_areas_over_classes(scheme, average):
    if (scheme, average) == ("ovo", "micro"):
        with pytest.raises(InvalidInput, match="macro, weighted"):
            metrics.multiclass_auc([0, 1, 2], np.eye(3), scheme=scheme, average=average)
        return
    rng = np.random.default_rng(5)
    found = []
    for _ in range(160):
        y = rng.choice(3, p=[0.5, 0.3, 0.2], size=200)
        table = np.exp(rng.normal(size=(200, 3)) + 1.2 * np.eye(3)[y])
        found.append(metrics.multiclass_auc(y, table, scheme=scheme, average=average))
    found = np.array(found)
    # 160 draws know the spread to 5.6 %
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(ddof=1), rel=0.17)


@pytest.mark.spec("I-01")
def test_tensors_lists_and_arrays_agree():
    y, p = [0, 1, 2, 2, 1], [0, 2, 2, 1, 1]
    table = metrics.confusion_matrix(torch.tensor(y), torch.tensor(p)).counts
    assert isinstance(table, torch.Tensor) and table.tolist() == peer.confusion_matrix(y, p).tolist()
    assert metrics.f1(torch.tensor(y), np.array(p), average="macro") == metrics.f1(y, p, average="macro")
    names = np.array(["x", "y", "z"], dtype=object)
    assert metrics.f1(names[y], names[p], average="macro") == metrics.f1(y, p, average="macro")
    boxed = np.array(y, dtype=object)
    assert metrics.f1(boxed, torch.tensor(p), average="macro") == metrics.f1(y, p, average="macro")
    scores = torch.tensor([0.1, 0.5, 0.5, 0.9], dtype=torch.float32, requires_grad=True)
    with torch.inference_mode():
        assert metrics.auc(torch.tensor([0, 0, 1, 1]), scores).value == 0.875


@pytest.mark.spec("I-01")
@pytest.mark.parametrize("listed", [None, [2, 0], [7, 1]])
def test_labels_that_lie_on_a_device_are_coded_the_same_way(listed):
    y, p = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 3])
    names, codes = coded("test", listed, y=y, p=p)
    there, others = _coded_there([y, p], None if listed is None else np.array(listed), torch.device("cpu"))
    assert names.tolist() == there.tolist()
    assert [part.tolist() for part in codes] == [part.tolist() for part in others]
    assert names[codes[1]].tolist() == p.tolist()


@pytest.mark.spec("I-02")
def test_overlap_of_masks():
    y = np.array([[[1, 1], [0, 0]], [[2, 2], [0, 0]]])
    p = np.array([[[1, 0], [0, 0]], [[2, 2], [2, 0]]])
    # class 1: TP 1, FN 1; class 2: TP 2, FP 1; class 0: TP 3, FP 1, FN 1
    for label, cover, dice in ((1, 1 / 2, 2 / 3), (2, 2 / 3, 4 / 5), (0, 3 / 5, 6 / 8)):
        assert metrics.iou(y, p, positive=label).value == pytest.approx(cover)
        assert metrics.dice(y, p, positive=label).value == pytest.approx(dice)
        assert metrics.dice(y, p, positive=label).value == pytest.approx(2 * cover / (1 + cover))
    assert metrics.iou(y, p, average="images").value == pytest.approx(((1 / 2 + 2 / 3) / 2 + (2 / 3 + 1 / 2) / 2) / 2)
    ignored = np.ones((2, 2, 2))
    ignored[0, 0, 1] = ignored[1, 1, 0] = 0
    assert metrics.iou(y, p, average="macro", sample_weight=ignored).value == 1.0
    assert metrics.dice({1, 2, 3}, {2, 3, 4, 5}).value == pytest.approx(2 * 2 / (3 + 4))
    assert metrics.iou(set(), set(), zero_division=1.0).value == 1.0


@pytest.mark.spec("I-02")
def test_the_error_of_masks_is_over_images():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        y = rng.random((40, 30)) < 0.4
        flip = rng.random((40, 30)) < rng.beta(1, 6, (40, 1))  # images differ in how hard they are
        found.append((metrics.iou(y, y ^ flip), metrics.iou(y.ravel(), (y ^ flip).ravel())))
    images, pixels = np.array(found).transpose(1, 2, 0)
    spread = images[0].std(ddof=1)
    assert np.sqrt((images[1] ** 2).mean()) == pytest.approx(spread, rel=0.13)  # known to 4 %
    assert np.sqrt((pixels[1] ** 2).mean()) < 0.7 * spread  # independent pixels would be a lie here


@pytest.mark.spec("I-01", "I-02")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.auc([1, 1], [0.1, 0.2]), "one class"),
        (lambda: metrics.auc([0, 1], [0.1, 0.2], sample_weight=[0, 1]), "one class"),
        (lambda: metrics.auc([0, 1], [0.1, np.nan]), "1 NaN"),
        (lambda: metrics.auc(["a", "b"], [0.1, 0.2]), "positive="),
        (lambda: metrics.auc(["a", "b"], [0.1, 0.2], positive="c"), "'c' is not among"),
        (lambda: metrics.auc([0, 1, 2], [0.1, 0.2, 0.3]), "3 labels"),
        (lambda: metrics.auc([0, 1], [[0.1, 0.2], [0.3, 0.4]]), "one a row"),
        (lambda: metrics.precision([0, 1, 2], [0, 1, 1]), "multi-class average"),
        (lambda: metrics.precision([0, 1], [0, 1], average="marco"), "did you mean 'macro'"),
        (lambda: metrics.recall([0, 1], [0.2, 0.7]), "not whole"),
        (lambda: metrics.recall(["a", "b"], [0, 1], average="macro"), "mix numbers and strings"),
        (lambda: metrics.recall(["a", None], ["a", "b"], average="macro"), "missing labels"),
        (lambda: metrics.accuracy([0, 1], [0, 1], [1.0, -1.0]), "negative"),
        (lambda: metrics.accuracy([0, 1], [0, 1], [0.0, 0.0]), "zero"),
        (lambda: metrics.accuracy([0, 1], [0, 1], [1.0]), "one weight a row"),
        (lambda: metrics.accuracy([0, 1], [0, 1], [1.0, np.nan]), "NaN"),
        (lambda: metrics.accuracy([[0, 1]], [[0, 1]]), "one label a row"),
        (lambda: metrics.confusion_matrix([0, 1], [0, 1], labels=[5]), "none of the listed"),
        (lambda: metrics.confusion_matrix([0, 1], [0, 1], labels=[0, 0]), "different labels"),
        (lambda: metrics.confusion_matrix([0, 1], [0, 1]).shares("rows"), "none of truth"),
        (lambda: metrics.cohen_kappa([1, 1], [1, 1]), "one and the same"),
        (lambda: metrics.cohen_kappa([1, 2], [1, 3], labels=[1, 2]), "3"),
        (lambda: metrics.balanced_accuracy([1, 1], [1, 0], adjusted=True), "one class"),
        (lambda: metrics.fbeta([0, 1], [0, 1], beta=-1), "zero or more"),
        (lambda: metrics.log_loss([0, 1], [[2.0, -1.0], [0.5, 0.5]]), "between 0 and 1"),
        (lambda: metrics.log_loss([0, 1], [[0.5, 0.1], [0.5, 0.5]]), "add up to 0.6"),
        (lambda: metrics.log_loss([0, 0], [[0.5, 0.5], [0.5, 0.5]]), "pass classes="),
        (lambda: metrics.brier([0, 1], [0.5, np.nan]), "NaN"),
        (lambda: metrics.top_k_accuracy([0, 1], np.eye(2), k=3), "between 1"),
        (lambda: metrics.multiclass_auc([0, 1], np.eye(2), scheme="ovx"), "did you mean"),
        (lambda: metrics.multiclass_auc([1, 1], np.eye(2), classes=[0, 1]), "one class"),
        (lambda: metrics.iou(np.zeros((2, 3)), np.zeros((2, 2))), "masks must match"),
        (lambda: metrics.iou([0, 1], [0, 1], average="images"), "needs masks"),
        (lambda: metrics.dice([[0, 1]], [[0, 1]], sample_weight=[[1, -1]]), "zero or more"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


@pytest.mark.spec("I-01")
def test_one_class_on_both_sides():
    assert metrics.matthews([1, 1, 1], [1, 1, 0]).value == 0.0
    assert math.isnan(metrics.matthews([1, 1, 1], [1, 1, 0]).stderr)
    assert metrics.accuracy([1, 1], [1, 1]) == (1.0, 0.0)
    assert metrics.confusion_matrix(["a", "a"], ["a", "a"]).counts.tolist() == [[2]]


@pytest.mark.spec("I-01")
def test_a_label_the_model_does_not_know():
    table = np.array([[0.5, 0.5], [0.9, 0.1]])
    # halved for two classes: (0.25 + 0.25) / 2 and (0.81 + 0.01 + 1) / 2
    assert metrics.brier(["a", "c"], table, ["a", "b"]).value == pytest.approx((0.25 + 0.91) / 2)
    assert metrics.top_k_accuracy(["a", "c"], table, 1, ["a", "b"]).value == 0.25
    assert metrics.recall(["a", "c"], ["a", "b"], average="macro").value == pytest.approx(1 / 3)


@pytest.mark.spec("I-01")
def test_the_matrix_is_drawn_with_its_counts():
    figure = metrics.confusion_matrix(["ham", "ham", "spam"], ["ham", "spam", "spam"]).plot(title="mail")
    axes = figure.axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["1", "1", "1"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ham", "spam"]
