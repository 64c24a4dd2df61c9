"""Cutting a grown tree back: by cost and complexity (CART), or by pessimistic errors (C4.5)."""

from __future__ import annotations

import heapq

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.trees.structure import Tree

# Normal deviates of upper tails, between which C4.5 interpolates.
_TAIL = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.4, 1.0)
_DEVIATE = (4.0, 3.09, 2.58, 2.33, 1.65, 1.28, 0.84, 0.25, 0.0)
_SLACK = 0.1  # errors by which a leaf may be worse than the subtree it replaces (C4.5, release 8)


def upper_error(errors: np.ndarray | float, cases: np.ndarray | float, confidence: float = 0.25) -> np.ndarray:
    r"""The pessimistic error rate of a leaf: an upper limit of a binomial rate, as C4.5 computes it.

    .. math:: U_{CF}(0, N) = 1 - CF^{1/N}, \qquad
        U_{CF}(E, N) = \frac{E + \frac12 + \frac{z^2}{2} + z \sqrt{(E + \frac12)(1 - \frac{E + 1/2}{N})
        + \frac{z^2}{4}}}{N + z^2}

    The first is exact; the second, for one error or more, is Wilson's limit with a continuity correction, z being
    the normal deviate read from a short table. Between no error and one the limit is interpolated.
    Quinlan, 1993, section 4.2 and release 8.

    errors: E. cases: N, of the same shape; both may be fractions. confidence: CF; smaller prunes more.

    >>> upper_error(0, 6).round(3), upper_error(1, 16).round(3)
    (np.float64(0.206), np.float64(0.157))
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"upper_error: confidence is {confidence!r}; it must lie between 0 and 1")
    E, N = np.broadcast_arrays(np.asarray(errors, float), np.asarray(cases, float))
    none = 1 - confidence ** (1 / N)
    one = _wilson(np.ones_like(N), N, confidence)
    few = none + np.clip(E, 0.0, 1.0) * (one - none)
    return np.where(E < 1, few, _wilson(E, N, confidence))[()]


def _wilson(E: np.ndarray, N: np.ndarray, confidence: float) -> np.ndarray:
    """The limit for one error or more; where hardly a case is right, two thirds of those are taken as errors too."""
    square = float(np.interp(confidence, _TAIL, _DEVIATE)) ** 2
    half = np.minimum(E + 0.5, N)
    limit = (half + square / 2 + np.sqrt(square * (half * (1 - half / N) + square / 4))) / (N + square)
    crowded = (E + 0.67 * np.maximum(N - E, 0.0)) / N
    return np.minimum(np.where(E + 0.5 >= N, crowded, limit), 1.0)


def prune_by_errors(tree: Tree, confidence: float = 0.25) -> Tree:
    """Replace every subtree by a leaf when its pessimistic errors would not grow, from the leaves to the root.

    Quinlan, 1993, chapter 4. The errors of a leaf are its cases times ``upper_error``; those of a subtree the sum
    over its leaves. value: weights of classes, so the tree must be that of a classifier.
    """
    errors = tree.weight - tree.value.max(1)
    alone = tree.weight * upper_error(np.maximum(errors, 0.0), tree.weight, confidence)
    below = np.zeros(tree.node_count)
    leaf = tree.feature < 0
    for node in range(tree.node_count - 1, -1, -1):
        if leaf[node] or alone[node] <= below[node] + _SLACK:
            leaf[node] = True
            below[node] = alone[node]
        if node:
            below[tree.parent[node]] += below[node]
    return tree.cut(leaf)


def weakest_links(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The order in which cost-complexity pruning cuts: nodes, alphas, and the impurity of the leaves after each cut.

    .. math:: \alpha(t) = \frac{R(t) - R(T_t)}{|T_t| - 1}

    Breiman, Friedman, Olshen & Stone, 1984, section 3.3. The first impurity, at alpha 0, is that of the whole tree,
    so alphas and impurities have one entry more than nodes.
    """
    risk = tree.impurity * tree.weight / tree.weight[0]
    inner = tree.feature >= 0
    below, leaves = np.where(inner, 0.0, risk), np.where(inner, 0, 1)
    for node in range(tree.node_count - 1, 0, -1):
        below[tree.parent[node]] += below[node]
        leaves[tree.parent[node]] += leaves[node]
    links = [((risk[t] - below[t]) / (leaves[t] - 1), int(t)) for t in np.flatnonzero(inner)]
    current = {t: alpha for alpha, t in links}
    heapq.heapify(links)
    cut, alphas, impurities = [], [0.0], [float(below[0])]
    while links:
        alpha, node = heapq.heappop(links)
        if current.get(node) != alpha:
            continue  # its subtree has changed since, or it is gone
        _forget(tree, node, current)
        saved, fewer = risk[node] - below[node], leaves[node] - 1
        above = int(tree.parent[node])
        while above >= 0:
            below[above] += saved
            leaves[above] -= fewer
            current[above] = (risk[above] - below[above]) / (leaves[above] - 1)
            heapq.heappush(links, (current[above], above))
            above = int(tree.parent[above])
        below[0] = risk[0] if node == 0 else below[0]
        cut.append(node)
        alphas.append(float(alpha))
        impurities.append(float(below[0]))
    return np.array(cut, dtype=np.int64), np.array(alphas), np.array(impurities)


def _forget(tree: Tree, node: int, current: dict[int, float]) -> None:
    """Take a node and all inner nodes below it off the list."""
    stack = [node]
    while stack:
        node = stack.pop()
        if current.pop(node, None) is not None:
            stack.extend(tree.children(node))


def prune_by_cost(tree: Tree, alpha: float) -> Tree:
    """The smallest subtree of least risk plus ``alpha`` times the number of leaves."""
    if alpha <= 0 or tree.node_count == 1:
        return tree
    nodes, alphas, _ = weakest_links(tree)
    leaf = tree.feature < 0
    leaf[nodes[alphas[1:] <= alpha]] = True
    return tree.cut(leaf)
