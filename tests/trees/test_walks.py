from __future__ import annotations

import numpy as np
import pytest
import torch

from benthic.trees import DecisionTreeClassifier, DecisionTreeRegressor
from benthic.trees.walking_torch import leaves_on_device, spread_on_device

pytestmark = pytest.mark.spec("G-01")
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(400, 3)), RNG.integers(0, 5, size=(400, 2))])
X[RNG.random(X.shape) < 0.1] = np.nan
Y = (np.nan_to_num(X[:, 0]) + (X[:, 3] > 2) + 0.5 * RNG.normal(size=400) > 0.5).astype(int)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")],
    ),
]


def fitted(algorithm):
    return DecisionTreeClassifier(algorithm=algorithm, categorical_features=[3, 4], pruning="none").fit(X, Y)


@pytest.mark.parametrize("device", DEVICES)
def test_walking_by_torch_ends_where_the_compiled_walk_ends(device):
    model = fitted("cart")
    rows = torch.tensor(X[RNG.permutation(400)])
    leaves = leaves_on_device(model.tree_, model._attributes(rows.to(device)))
    np.testing.assert_array_equal(leaves.cpu().numpy(), model.apply(rows.numpy()))


@pytest.mark.parametrize("device", DEVICES)
def test_rows_in_fractions_by_torch_are_those_of_the_compiled_walk(device):
    model = fitted("c4.5")
    tree = model.tree_
    assert tree.fractional
    shares = tree.value / tree.value.sum(1, keepdims=True)
    found, leaves = spread_on_device(tree, model._attributes(torch.tensor(X, device=device)), shares)
    np.testing.assert_allclose(found.cpu().numpy(), model.predict_proba(X), atol=1e-12)
    one_way = ~np.isnan(X).any(1)
    np.testing.assert_array_equal(leaves.cpu().numpy()[one_way], model.apply(X)[one_way])


@pytest.mark.parametrize("algorithm", ["cart", "c4.5"])
def test_paths_lead_from_the_root_to_the_leaf(algorithm):
    model = fitted(algorithm)
    tree, path, leaves = model.tree_, model.decision_path(X), model.apply(X)
    assert path.shape == (400, tree.node_count) and (path[:, 0].toarray() == 1).all()
    np.testing.assert_array_equal(np.asarray(path.sum(1))[:, 0], tree.depth[leaves] + 1)
    assert (tree.feature[leaves] < 0).all()


def test_every_training_row_ends_in_a_leaf_that_counted_it():
    tree = fitted("cart").tree_
    leaves = fitted("cart").apply(X)
    np.testing.assert_array_equal(np.bincount(leaves, minlength=tree.node_count)[tree.leaves], tree.rows[tree.leaves])
    for node in np.flatnonzero(tree.feature >= 0):
        assert tree.rows[tree.children(node)].sum() == tree.rows[node]


def test_tensors_are_answered_with_tensors_of_their_type():
    model = DecisionTreeRegressor(max_depth=3).fit(torch.tensor(X[:, :3], dtype=torch.float32), torch.tensor(Y * 1.0))
    out = model.predict(torch.tensor(X[:5, :3], dtype=torch.float32))
    assert out.dtype == torch.float32 and out.shape == (5,)
    assert model.apply(torch.tensor(X[:5, :3])).dtype == torch.int64
