"""Grown trees against a search of every cut in plain NumPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benthic.base.threads import Crew
from benthic.trees import histogram_grower
from benthic.trees.binning import bin_codes, find_bins
from benthic.trees.boosting_objective import newton_values
from benthic.trees.histogram import LIFT, SHIFT, TOP, WORDS, pack_gradients
from benthic.trees.histogram_grower import GrowthRules, HistogramGrower
from benthic.trees.signals import met

pytestmark = pytest.mark.spec("G-02")


def worth(g, h, l2):
    return g.sum() ** 2 / (h.sum() + l2)


def best_cut(X, g, h, rules):
    """Gain, column and rows that go left of the best cut, by trying all; missing values on either side."""
    best = (0.0, -1, None)
    for j in range(X.shape[1]):
        x = X[:, j]
        there, absent = ~np.isnan(x), np.isnan(x)
        cuts = [np.where(there, x <= edge, False) for edge in np.unique(x[there])]
        cuts += [cut | absent for cut in cuts] if absent.any() else []
        for left in cuts:
            if min(left.sum(), (~left).sum()) < rules.min_samples_leaf:
                continue
            gain = worth(g[left], h[left], rules.l2) + worth(g[~left], h[~left], rules.l2) - worth(g, h, rules.l2)
            if gain > best[0] * (1 + 1e-6) + 1e-9:
                best = (gain, j, left)
    return best


def grown(X, g, h, rules, categorical=None, jobs=1, chosen=None):
    categorical = [False] * X.shape[1] if categorical is None else categorical
    bins = find_bins(X, categorical)
    with Crew(jobs) as crew:
        grower = HistogramGrower(bin_codes(X, bins), bins, rules, len(h) > 1, crew)
        tree = grower.grow(g, h, (np.abs(g).max(), h.max()), chosen)
        return tree, grower


def check_node(tree, node, rows, X, g, h, rules):
    """Every cut of a tree grown without a limit of leaves is the best there is."""
    gain, _, _ = best_cut(X[rows], g[rows], h[rows], rules)
    if tree.left[node] < 0:
        assert gain < 1e-6
        return
    assert tree.gain[node] == pytest.approx(gain, rel=1e-5)
    left = tree.left[node]
    for child in (left, left + 1):
        check_node(tree, child, tree.rows[tree.start[child] : tree.stop[child]], X, g, h, rules)


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("leaf", [1, 4])
def test_every_cut_is_the_best_one(second_order, missing, leaf):
    rng = np.random.default_rng(leaf)
    X = rng.integers(0, 6, size=(80, 4)).astype(float)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    g = rng.normal(size=80)
    h = rng.uniform(0.2, 1.0, size=80) if second_order else np.ones(1)
    rules = GrowthRules(max_leaf_nodes=None, max_depth=4, min_samples_leaf=leaf, l2=0.5, min_curvature=0.0)
    tree, _ = grown(X, g, h, rules)
    full = np.broadcast_to(h, 80)
    assert tree.left[0] > 0
    todo = [(0, 0)]
    while todo:  # nodes above the depth limit
        node, depth = todo.pop()
        rows = tree.rows[tree.start[node] : tree.stop[node]]
        gain, _, _ = best_cut(X[rows], g[rows], full[rows], rules)
        if tree.left[node] >= 0:
            assert tree.gain[node] == pytest.approx(gain, rel=1e-5)
            todo += [(tree.left[node], depth + 1), (tree.left[node] + 1, depth + 1)]
        elif depth < 4:
            assert gain < 1e-5


def test_leaf_values_are_newton_steps_of_their_rows():
    rng = np.random.default_rng(0)
    X, g, h = rng.normal(size=(300, 3)), rng.normal(size=300), rng.uniform(0.1, 1, 300)
    tree, _ = grown(X, g, h, GrowthRules(max_leaf_nodes=9, min_samples_leaf=5, l2=0.3))
    values = newton_values(g, h, tree, 0.3)
    assert len(tree.leaves) == 9
    for node, value in zip(tree.leaves, values, strict=True):
        rows = tree.rows[tree.start[node] : tree.stop[node]]
        assert value == pytest.approx(-g[rows].sum() / (h[rows].sum() + 0.3), rel=1e-12)
        assert len(rows) >= 5
    assert sorted(np.concatenate([tree.rows[tree.start[k] : tree.stop[k]] for k in tree.leaves])) == list(range(300))


@pytest.mark.parametrize("second_order", [False, True])
def test_a_subset_of_categories_is_the_best_of_all_subsets(second_order):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 7, size=120).astype(float)
    x[:10] = np.nan
    g = rng.normal(size=8)[np.nan_to_num(x, nan=7).astype(int)] + 0.3 * rng.normal(size=120)
    h = rng.uniform(0.5, 1, 120) if second_order else np.ones(1)
    full = np.broadcast_to(h, 120)
    rules = GrowthRules(max_leaf_nodes=2, min_samples_leaf=1)
    tree, _ = grown(x[:, None], g, h, rules, categorical=[True])
    kinds = np.nan_to_num(x, nan=7)
    gains = []
    for size in range(1, 8):
        for names in combinations(range(8), size):
            left = np.isin(kinds, names)
            gains.append(worth(g[left], full[left], 0) + worth(g[~left], full[~left], 0) - worth(g, full, 0))
    assert tree.gain[0] == pytest.approx(max(gains), rel=1e-5)
    left = tree.rows[tree.start[1] : tree.stop[1]]
    assert not set(kinds[left]) & set(np.delete(kinds, left))


@pytest.mark.parametrize("growth", ["leaf", "depth"])
def test_the_order_of_growth(growth):
    rng = np.random.default_rng(5)
    X, g = rng.normal(size=(2000, 5)), rng.normal(size=2000) ** 3
    tree, _ = grown(X, g, np.ones(1), GrowthRules(max_leaf_nodes=8, min_samples_leaf=1, growth=growth))
    depth = np.zeros(len(tree.left), dtype=int)
    for node in range(len(tree.left)):
        if tree.left[node] >= 0:
            depth[[tree.left[node], tree.left[node] + 1]] = depth[node] + 1
    assert len(tree.leaves) == 8
    if growth == "depth":
        assert set(depth[tree.leaves]) == {3}
    else:
        whole, _ = grown(X, g, np.ones(1), GrowthRules(max_leaf_nodes=8, min_samples_leaf=1, growth="depth"))
        assert tree.gain.sum() > whole.gain.sum()


def test_threads_and_a_sample_of_rows_change_nothing_but_the_rows():
    rng = np.random.default_rng(6)
    X, g = rng.normal(size=(30_000, 17)), rng.normal(size=30_000)
    rules = GrowthRules(max_leaf_nodes=12)
    one, _ = grown(X, g, np.ones(1), rules, jobs=1)
    three, _ = grown(X, g, np.ones(1), rules, jobs=3)
    for name in ("feature", "bin", "left", "start", "gain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    chosen = np.sort(rng.choice(30_000, 9000, replace=False)).astype(np.uint32)
    part, grower = grown(X, g, np.ones(1), rules, chosen=chosen)
    np.testing.assert_array_equal(np.sort(part.rows), chosen)
    leaf = grower.place(chosen)
    for node in part.leaves:
        assert set(part.rows[part.start[node] : part.stop[node]]) == set(chosen[leaf == node])


def many_rows(seed=7):
    """Rows enough to round to few bits; the cuts are plain to see."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, 17))
    X[rng.random(X.shape) < 0.02] = np.nan
    g = np.nan_to_num(X[:, 0] + 0.5 * (X[:, 1] > 0) * X[:, 2]) + 0.1 * rng.normal(size=20_000)
    return X, g, rng.uniform(0.1, 1.0, 20_000)


def test_sums_that_share_a_word_find_the_cuts_of_exact_ones(monkeypatch):
    X, g, h = many_rows()
    rules = GrowthRules(max_leaf_nodes=12)
    near, grower = grown(X, g, h, rules)
    assert grower.grower.whole[WORDS] == 1
    monkeypatch.setattr(histogram_grower, "_EXACT", 10**9)
    exact, grower = grown(X, g, h, rules)
    assert grower.grower.whole[WORDS] == 2
    for name in ("feature", "left", "missing_left"):
        np.testing.assert_array_equal(getattr(near, name), getattr(exact, name))
    np.testing.assert_allclose(near.gain, exact.gain, rtol=2e-3)  # rounding errors add up as a random walk
    rows = near.rows[near.start[near.leaves[0]] : near.stop[near.leaves[0]]]
    assert newton_values(g, h, near, 0.0)[0] == pytest.approx(-g[rows].sum() / h[rows].sum(), rel=1e-12)


@pytest.mark.parametrize("second_order", [False, True])
def test_threads_that_share_rows_and_columns_grow_the_tree_of_one(second_order):
    X, g, h = many_rows()
    h, names = h if second_order else np.ones(1), [False] * 16 + [True]
    X[:, 16] = np.round(X[:, 16])
    rules = GrowthRules(max_leaf_nodes=20, monotonic=np.array([1] + [0] * 16))
    one, two = (grown(X, g, h, rules, categorical=names, jobs=jobs)[0] for jobs in (1, 2))
    for name in ("feature", "bin", "left", "missing_left", "named", "start", "gain", "low", "high", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    named = one.named == 1
    np.testing.assert_array_equal(one.subset[named], two.subset[named])


def test_rounding_at_random_is_right_on_average_and_differs_by_tree():
    n, bits = 20_000, 15
    whole = np.zeros(11, dtype=np.int64)
    whole[[WORDS, SHIFT, LIFT, TOP]] = 1, bits, bits, 2 * bits + 4
    gradient, curvature = np.full(n, -0.3), np.full(n, 0.01)
    found = []
    for turn in range(2):
        first = np.empty(n, dtype=np.int64)
        pack_gradients(gradient, curvature, np.array([0.125, 0.0625]), whole, turn, first, np.empty(1), 0, n)
        slope, bend = (first >> whole[TOP]) * 0.125, ((first >> bits) & (2 ** (bits + 4) - 1)) * 0.0625
        assert (first & (2**bits - 1) == 1).all()
        assert set(slope) == {-0.375, -0.25} and set(bend) == {0.0, 0.0625}
        for got, wanted in ((slope, -0.3), (bend, 0.01)):
            assert abs(got.mean() - wanted) < 5 * got.std() / n**0.5
        found.append(slope)
    assert abs(np.corrcoef(found)[0, 1]) < 5 / n**0.5


def test_curvatures_that_few_bits_would_lose_have_a_word_of_their_own():
    X, g, h = many_rows()
    h[:] = 1e-4
    h[0] = 1.0
    tree, grower = grown(X, g, h, GrowthRules(max_leaf_nodes=4, min_curvature=0.0))
    assert grower.grower.whole[WORDS] == 2
    inside = [tree.rows[tree.start[k] : tree.stop[k]] for k in (0, tree.left[0], tree.left[0] + 1)]
    whole, left, right = (worth(g[rows], h[rows], 0.0) for rows in inside)
    assert tree.gain[0] == pytest.approx(left + right - whole, rel=1e-6)


def test_a_thread_stops_waiting_for_a_number_that_does_not_come():
    numbers = np.array([3, 4])
    assert met(numbers, 1, 4) and not met(numbers, 0, 4)


def test_a_long_thin_tree_needs_few_histograms():
    x = np.arange(3000.0)
    g = np.exp(x / 300)  # every best cut takes a little off one end
    tree, grower = grown(x[:, None], g, np.ones(1), GrowthRules(max_leaf_nodes=None, min_samples_leaf=1))
    assert len(tree.leaves) == 255 and len(grower.grower.hist) < 20
