"""Distances of tables: columns by kind, and how pairs of columns go together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import chi2_contingency, ks_2samp, pearsonr

from benthic import metrics
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("I-03")


def table(n, seed, tilt=0.0, missing=False):
    rng = np.random.default_rng(seed)
    age = rng.normal(40 + 5 * tilt, 10, n)
    city = rng.choice(["Bern", "Rome", "Oslo"], n, p=[0.5, 0.3, 0.2] if not tilt else [0.2, 0.3, 0.5])
    income = age * (1 - tilt) + 10 * (city == "Rome") + rng.normal(size=n)
    job = np.where(rng.random(n) < 0.7 - 0.5 * tilt, city, "none")
    hole = (rng.random(n) < 0.2) if missing else np.zeros(n, bool)
    return pa.table(
        {
            "age": pa.array(age, mask=hole),
            "city": pa.array(city, mask=hole),
            "income": income,
            "job": job,
            "note": [f"text number {seed} {i}" for i in range(n)],
        }
    )


REAL, MADE = table(300, 0), table(250, 1, 0.6)


def column(frame, name):
    return frame[name].to_numpy(zero_copy_only=False)


def test_marginals_are_scipys():
    found = metrics.marginal_distances(REAL, MADE)
    assert found.names == ("age", "city", "income", "job")  # text is left out
    assert found.kinds == ("KS", "TV", "KS", "TV")
    by_name = dict(zip(found.names, found.distances, strict=True))
    for name in ("age", "income"):
        assert by_name[name].value == pytest.approx(ks_2samp(column(REAL, name), column(MADE, name)).statistic)
    for name in ("city", "job"):
        p, q = ([np.mean(column(t, name) == c) for c in ("Bern", "Rome", "Oslo", "none")] for t in (REAL, MADE))
        assert by_name[name].value == pytest.approx(np.abs(np.subtract(p, q)).sum() / 2)
    assert found.mean.value == pytest.approx(np.mean([part.value for part in found.distances]))
    assert "city" in str(found)


def test_associations_are_scipys():
    found = metrics.association_distances(REAL, MADE)
    for frame, matrix in ((REAL, found.real), (MADE, found.generated)):
        age, city, income, job = (column(frame, name) for name in found.names)
        assert float(matrix[0, 2]) == pytest.approx(pearsonr(age, income).statistic)
        counts = np.array([[np.sum((city == a) & (job == b)) for b in np.unique(job)] for a in np.unique(city)])
        expected = np.sqrt(chi2_contingency(counts, correction=False).statistic / (counts.sum() * 2))
        assert float(matrix[1, 3]) == pytest.approx(expected)
        between = sum(np.sum(city == c) * (income[city == c].mean() - income.mean()) ** 2 for c in np.unique(city))
        assert float(matrix[1, 2]) == pytest.approx(np.sqrt(between / np.square(income - income.mean()).sum()))
        assert torch.equal(matrix, matrix.T)
    upper = np.triu_indices(4, 1)
    assert found.mean.value == pytest.approx(np.abs((found.real - found.generated).numpy())[upper].mean())


def test_errors_are_jackknives_computed_anew():
    from benthic.metrics.samples import grouped

    for metric in (metrics.marginal_distances, metrics.association_distances):
        found, variance = metric(REAL, MADE, groups=4).mean, 0.0
        for side, frame in enumerate((REAL, MADE)):
            group = grouped(len(frame), 4, 0, torch.device("cpu")).numpy()
            parts = [frame.take(np.flatnonzero(group != g)) for g in range(4)]
            each = np.array([metric(*((p, MADE) if side == 0 else (REAL, p))).mean.value for p in parts])
            variance += 3 / 4 * np.square(each - each.mean()).sum()
        assert found.stderr == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_missing_values_count():
    holes = table(300, 0, missing=True)
    found = metrics.marginal_distances(REAL, holes)
    share = np.mean([value is None for value in holes["age"].to_pylist()])
    assert found.distances[1].value == pytest.approx(share)  # a category of its own
    assert found.distances[0].value >= share - 1e-12  # beyond all numbers
    both = metrics.association_distances(holes, holes)
    kept = np.array([value is not None for value in holes["age"].to_pylist()])
    age = np.array([value for value in holes["age"].to_pylist() if value is not None])
    assert float(both.real[0, 2]) == pytest.approx(pearsonr(age, column(holes, "income")[kept]).statistic)


def test_categories_that_only_one_table_has():
    a, b = pa.table({"c": ["x", "y"] * 5}), pa.table({"c": ["z", "x"] * 5})
    assert metrics.marginal_distances(a, b).mean.value == pytest.approx(0.5)


def test_arrays_with_named_categories():
    X = np.column_stack([np.arange(20.0), np.arange(20) % 2])
    Y = np.column_stack([np.arange(20.0) + 5, np.zeros(20)])
    found = metrics.marginal_distances(X, torch.tensor(Y), kinds={1: "category"})
    assert found.kinds == ("KS", "TV")
    np.testing.assert_allclose([part.value for part in found.distances], [0.25, 0.5])
    pairs = metrics.association_distances(X, Y, kinds={1: "category"})
    assert float(pairs.generated[0, 1]) == 0  # a column that does not vary goes with nothing


def test_pandas_frames():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(frame.to_pydict()) for frame in (REAL, MADE)]
    assert metrics.marginal_distances(*frames).mean == metrics.marginal_distances(REAL, MADE).mean


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.marginal_distances(REAL, MADE.drop_columns(["job"])), "generated has no column 'job'"),
        (lambda: metrics.marginal_distances(REAL, np.zeros((3, 4))), "the other is not"),
        (lambda: metrics.marginal_distances(np.zeros((3, 2)), np.zeros((3, 4))), r"\(3, 2\) and \(3, 4\)"),
        (lambda: metrics.marginal_distances(REAL.slice(0, 1), MADE, kinds={"city": "category"}), "real has 1 rows"),
        (lambda: metrics.marginal_distances(REAL, MADE, groups=1), "groups is 1"),
        (lambda: metrics.association_distances(REAL.select(["age"]), MADE.select(["age"])), "at least two are needed"),
    ],
)
def test_bad_tables_get_one_sentence(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()
