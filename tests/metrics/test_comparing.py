from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benthic import metrics
from benthic.base.errors import InvalidInput


@pytest.mark.spec("I-04")
def test_corrected_error_is_the_formula_of_nadeau_and_bengio():
    scores = np.random.default_rng(0).normal(size=30)
    found = metrics.resampled_estimate(scores, 1 / 9)
    assert found.value == pytest.approx(scores.mean())
    assert found.stderr == pytest.approx(math.sqrt((1 / 30 + 1 / 9) * scores.var(ddof=1)))
    assert math.isnan(metrics.resampled_estimate([0.5], 0.2).stderr)


@pytest.mark.spec("I-04")
def test_without_overlap_it_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=12), rng.normal(size=12) + 0.3
    ours, theirs = metrics.corrected_t_test(a, b, 0.0), stats.ttest_rel(a, b)
    assert ours.statistic == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    np.testing.assert_allclose(ours.interval, theirs.confidence_interval(0.95))
    assert metrics.corrected_t_test(a, b, 0.25).p_value > ours.p_value
    assert metrics.corrected_t_test(a, a, 0.25).p_value == 1.0
    assert metrics.corrected_t_test(a, a - 1, 0.25).statistic > 1e6


@pytest.mark.spec("I-04")
@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 5), (9, 2), (40, 20), (30, 30)])
def test_mcnemar_by_its_table(b, c):
    y = np.zeros(b + c + 10, dtype=int)
    first, second = np.zeros_like(y), np.zeros_like(y)
    second[:b] = 1  # the first is right and the second wrong
    first[b : b + c] = 1
    found = metrics.mcnemar(y, first, second)
    assert found.difference.value == pytest.approx((b - c) / len(y))
    assert found.difference.stderr == pytest.approx(
        ((first == y) * 1.0 - (second == y)).std(ddof=1) / math.sqrt(len(y))
    )
    if b + c < 25:
        assert found.p_value == pytest.approx(stats.binomtest(b, b + c).pvalue if b + c else 1.0)
    else:
        assert found.p_value == pytest.approx(stats.chi2.sf(max(0, abs(b - c) - 1) ** 2 / (b + c), 1))
    names = np.array(["x", "z"])
    assert metrics.mcnemar(names[y], names[first], names[second], exact=True).method == "exact McNemar test"


@pytest.mark.spec("I-04")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.corrected_t_test([1.0], [1.0], 0.1), "at least two"),
        (lambda: metrics.corrected_t_test([1.0, 2.0], [1.0], 0.1), "rows must match"),
        (lambda: metrics.resampled_estimate([1.0, np.nan], 0.1), "finite"),
        (lambda: metrics.resampled_estimate([1.0, 2.0], -1), "positive"),
        (lambda: metrics.mcnemar([0, 1], [0, 1], [0]), "rows must match"),
        (lambda: metrics.mcnemar([[0]], [[0]], [[0]]), "one label a row"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
