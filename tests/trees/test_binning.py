"""Edges and codes of bins against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from benthic.base.errors import InvalidInput
from benthic.base.threads import Crew, threads
from benthic.trees.binning import MISSING, bin_codes, find_bins, named_codes, pack

pytestmark = pytest.mark.spec("G-02")


@pytest.mark.parametrize("jobs", [1, 3])
def test_codes_are_those_of_searchsorted(jobs):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.integers(0, 9, 3000), np.exp(rng.normal(size=3000) * 5)])
    with Crew(jobs) as crew:
        bins = find_bins(X, [False] * 3, 255, crew)
        codes = bin_codes(X, bins, crew)
    for j in range(3):
        edges = bins.edges[j, : bins.counts[j] - 1]
        assert (np.diff(edges) > 0).all()
        np.testing.assert_array_equal(codes[j], np.searchsorted(edges, X[:, j]))
    assert bins.counts.tolist() == [255, 9, 255]


def test_few_values_have_a_bin_each_with_edges_halfway():
    bins = find_bins(np.array([[3.0], [1.0], [1.0], [7.0]]), [False])
    np.testing.assert_array_equal(bins.edges[0, :2], [2.0, 5.0])
    assert np.isinf(bins.edges[0, 2:]).all()


def test_bins_hold_about_equally_many_rows_even_beside_a_heavy_value():
    rng = np.random.default_rng(1)
    x = np.where(rng.random(20_000) < 0.6, 0.0, rng.normal(size=20_000))
    bins = find_bins(x[:, None], [False], 32)
    counts = np.bincount(bin_codes(x[:, None], bins)[0], minlength=32)
    assert bins.counts[0] == 32
    light = np.sort(counts)[:-1]  # all but the bin of the zero
    assert light.max() <= 1.1 * 8000 / 31 and light.min() > 100


def test_neighboring_floats_are_parted():
    low = 1.0
    high = np.nextafter(low, 2.0)
    bins = find_bins(np.array([[low], [high]]), [False])
    np.testing.assert_array_equal(bin_codes(np.array([[low], [high]]), bins), [[0, 1]])


def test_missing_values_and_unknown_categories_get_the_last_code():
    X = np.array([[np.nan, 5.0], [1.0, 7.0], [2.0, np.nan]])
    bins = find_bins(X, [False, True])
    np.testing.assert_array_equal(bin_codes(X, bins), [[MISSING, 0, 1], [0, 1, MISSING]])
    np.testing.assert_array_equal(bin_codes(np.array([[0.0, 6.0]]), bins)[:, 0], [0, MISSING])
    np.testing.assert_array_equal(named_codes(np.array([[3.0, 7.0]]), bins.categories), [[3.0, 1.0]])
    empty = find_bins(np.full((3, 1), np.nan), [False])
    assert (bin_codes(np.full((3, 1), np.nan), empty) == MISSING).all()


def test_too_many_categories():
    with pytest.raises(InvalidInput, match="column 0 has 300 categories; at most 255"):
        find_bins(np.arange(300.0)[:, None], [True])


def test_packed_words_hold_the_bytes():
    codes = np.random.default_rng(0).integers(0, 256, size=(11, 50)).astype(np.uint8)
    words = pack(codes)
    for j in range(11):
        np.testing.assert_array_equal((words[j // 8] >> np.uint64(8 * (j % 8))) & np.uint64(255), codes[j])


def test_threads_share_work_and_pass_errors_on():
    with Crew(3) as crew:
        assert crew.blocks(100_000, lambda a, b: b - a) == [16384] * 6 + [1696]
        pieces = []
        crew.split(50_000, lambda a, b: pieces.append((a, b)))
        assert sorted(pieces) == [(0, 16666), (16666, 33333), (33333, 50000)]
        with pytest.raises(ZeroDivisionError):
            crew.each(lambda item: 1 / item, [1, 2, 0, 3])
    assert threads(None) == 1 and threads(-1) >= 1
    with pytest.raises(InvalidInput, match="n_jobs is 0"):
        threads(0)
