from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer

from benthic.base.errors import InvalidInput
from benthic.trees import DecisionTreeClassifier
from benthic.trees.pruning import prune_by_cost, prune_by_errors, upper_error, weakest_links
from tests.trees import weather

pytestmark = pytest.mark.spec("G-01")


@pytest.mark.parametrize(
    ("errors", "cases", "printed"), [(0, 6, 0.206), (0, 9, 0.143), (0, 1, 0.750), (1, 16, 0.157), (1, 168, 0.016)]
)
def test_upper_limits_are_those_quinlan_published(errors, cases, printed):
    assert upper_error(errors, cases) == pytest.approx(printed, abs=5.1e-4)


def test_without_errors_the_limit_is_exact_and_with_errors_close():
    for cases in (1, 5, 40):
        assert binom.cdf(0, cases, upper_error(0, cases, 0.1)) == pytest.approx(0.1)
    for errors, cases in ((2, 20), (5, 60), (10, 50)):
        # the table of deviates and the normal law cost a few hundredths
        assert binom.cdf(errors, cases, upper_error(errors, cases)) == pytest.approx(0.25, abs=0.03)


def test_limits_grow_with_errors_and_shrink_with_cases():
    grid = upper_error(np.linspace(0, 10, 41), np.full(41, 10.0))
    assert (np.diff(grid[:37]) >= 0).all() and grid[-1] == 1.0  # C4.5's own rule for E > N - 1/2 dips a little
    assert (np.diff([upper_error(0, n) for n in range(1, 20)]) < 0).all()
    with pytest.raises(InvalidInput, match="confidence is 2"):
        upper_error(0, 1, 2)


def test_pruning_by_errors_never_makes_the_pessimistic_errors_worse():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.1, 1 - y, y)
    whole = DecisionTreeClassifier(algorithm="c4.5", pruning="none").fit(X, y).tree_
    sizes = []
    for confidence in (0.9, 0.5, 0.25, 0.1, 0.01):
        cut = prune_by_errors(whole, confidence)
        before, after = (_pessimistic(tree, confidence) for tree in (whole, cut))
        assert after <= before + 0.1 * (whole.feature >= 0).sum()
        sizes.append(cut.node_count)
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    fitted = DecisionTreeClassifier(algorithm="c4.5", pruning="replace").fit(X, y)
    assert fitted.tree_.node_count == prune_by_errors(whole).node_count < whole.node_count


def _pessimistic(tree, confidence):
    leaves = tree.leaves
    weight, errors = tree.weight[leaves], tree.weight[leaves] - tree.value[leaves].max(1)
    return float((weight * upper_error(errors, weight, confidence)).sum())


def _risk(tree):
    return float((tree.impurity * tree.weight / tree.weight[0])[tree.leaves].sum())


def test_cost_pruning_is_the_best_of_all_subtrees():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + 0.7 * rng.normal(size=60) > 0).astype(int)
    whole = DecisionTreeClassifier(max_leaf_nodes=9).fit(X, y).tree_
    subtrees = [whole.cut(leaf) for leaf in _all_cuts(whole)]
    assert len(subtrees) > 15
    for alpha in (0.003, 0.01, 0.03, 0.1):
        cost = [_risk(tree) + alpha * len(tree.leaves) for tree in subtrees]
        found = prune_by_cost(whole, alpha)
        assert _risk(found) + alpha * len(found.leaves) == pytest.approx(min(cost), abs=1e-12)


def _all_cuts(tree):
    """Marks of leaves of every subtree with the same root."""

    def ways(node):
        if tree.feature[node] < 0:
            return [frozenset({node})]
        left, right = (ways(child) for child in tree.children(node))
        return [frozenset({node}), *(a | b for a in left for b in right)]

    for leaves in ways(0):
        yield np.isin(np.arange(tree.node_count), list(leaves))


def test_the_path_ends_at_the_root_and_alphas_do_not_fall():
    X, y = load_breast_cancer(return_X_y=True)
    tree = DecisionTreeClassifier().fit(X, y).tree_
    nodes, alphas, impurities = weakest_links(tree)
    assert nodes[-1] == 0 and impurities[-1] == pytest.approx(tree.impurity[0])
    assert (np.diff(alphas) > -1e-12).all() and (np.diff(impurities) > -1e-12).all()
    for alpha, impurity in zip(alphas[5:], impurities[5:], strict=True):
        assert _risk(prune_by_cost(tree, alpha * (1 + 1e-9) + 1e-15)) >= impurity - 1e-9


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_raised_subtrees_have_fewer_pessimistic_errors_and_whole_counts(missing):
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.1, 1 - y, y)
    X = np.where(rng.random(X.shape) < missing, np.nan, X)[:, :8]
    trees = {
        how: DecisionTreeClassifier(algorithm="c4.5", pruning=how).fit(X, y).tree_
        for how in ("none", "replace", "error")
    }
    raised = trees["error"]
    assert raised.node_count <= trees["replace"].node_count < trees["none"].node_count
    assert _pessimistic(raised, 0.25) <= _pessimistic(trees["none"], 0.25)
    assert raised.weight[raised.leaves].sum() == pytest.approx(len(y))
    for node in np.flatnonzero(raised.feature >= 0):
        np.testing.assert_allclose(raised.value[raised.children(node)].sum(0), raised.value[node], atol=1e-9)
    drop = raised.impurity[0] - (raised.weight * raised.impurity)[raised.leaves].sum() / raised.weight[0]
    assert raised.gain.sum() == pytest.approx(drop)


def test_a_question_that_one_branch_alone_justified_is_raised_away():
    # b alone tells the class, but costs so much that a is asked first; raising b takes that question out
    rng = np.random.default_rng(0)
    b = np.tile([0, 1], 50)
    X = np.column_stack([np.where(rng.random(100) < 0.3, b, rng.integers(0, 2, 100)), b]).astype(float)
    settings = {"algorithm": "c4.5", "criterion": "entropy", "categorical_features": [0, 1]}
    settings["attribute_costs"] = {"x1": 1e6}
    whole, lean, cut = (
        DecisionTreeClassifier(pruning=how, **settings).fit(X, b) for how in ("none", "replace", "error")
    )
    assert whole.tree_.feature[0] == lean.tree_.feature[0] == 0
    assert whole.get_n_leaves() == lean.get_n_leaves() == 4 and cut.get_n_leaves() == 2
    assert cut.tree_.feature.tolist() == [1, -1, -1]
    np.testing.assert_array_equal(cut.tree_.value, [[50, 50], [50, 0], [0, 50]])


def test_the_published_tree_survives_pruning_with_every_way_of_it():
    X, y = weather.categories()
    for how in ("error", "replace", "none"):
        assert DecisionTreeClassifier(algorithm="c4.5", pruning=how).fit(X, y).get_n_leaves() == 5
