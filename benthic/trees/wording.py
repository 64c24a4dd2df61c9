"""A tree in words: as indented text, or one rule for each leaf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benthic.trees.attributes import attribute_names
from benthic.trees.structure import Tree


def number(value: float) -> str:
    """A number in few digits, without a trailing zero."""
    return f"{value:.5g}"


def category(model: Any, feature: int, code: int) -> str:
    """The name of a category."""
    value = model.categories_[feature][code]
    return number(value) if isinstance(value, (float, np.floating)) else str(value)


def conditions(model: Any, tree: Tree, node: int) -> Iterator[tuple[int, str]]:
    """Every child of a node with the answer that leads to it, without the name of the feature."""
    feature = int(tree.feature[node])
    span = tree.branches[tree.first[node] : tree.first[node] + tree.ways[node]]
    if not tree.categories[feature]:
        low, high = int(span[0]), int(span[1])
        if np.isinf(tree.threshold[node]):
            yield low, "is known"
            yield high, "is missing"
            return
        cut = number(tree.threshold[node])
        yield low, f"<= {cut}"
        yield high, f"> {cut}"
        return
    for child in tree.children(node):
        named = [category(model, feature, code) for code in np.flatnonzero(span == child)]
        if not named:
            yield child, "is missing"
            continue
        yield child, f"= {named[0]}" if len(named) == 1 else f"in {{{', '.join(named)}}}"


def outcome(model: Any, tree: Tree, node: int) -> str:
    """What a leaf says: the class with how many rows have it, or the mean, with the number of rows."""
    value, weight = tree.value[node], tree.weight[node]
    if hasattr(model, "classes_"):
        best = int(value.argmax())
        share = number(value[best]) if abs(value[best] - weight) > 1e-9 * weight else None
        of = f"{share} of {number(weight)}" if share else number(weight)
        return f"{model.classes_[best]} ({of})"
    return f"{', '.join(map(number, value))} ({number(weight)})"


def text(model: Any, max_depth: int | None = None) -> str:
    """The tree as indented text."""
    tree, names = model.tree_, attribute_names(model)
    if tree.feature[0] < 0:
        return outcome(model, tree, 0)
    lines, stack = [], [(child, answer, 0) for child, answer in conditions(model, tree, 0)][::-1]
    while stack:
        node, answer, level = stack.pop()
        line = "|   " * level + f"{names[tree.feature[tree.parent[node]]]} {answer}"
        ended = tree.feature[node] < 0
        cut = max_depth is not None and level + 1 >= max_depth and not ended
        lines.append(f"{line}: {outcome(model, tree, node)}" + (" ..." if cut else "") if ended or cut else line)
        if not ended and not cut:
            stack += [(child, way, level + 1) for child, way in conditions(model, tree, node)][::-1]
    return "\n".join(lines)


def rules(model: Any) -> list[str]:
    """A sentence for each leaf, in the order of the tree."""
    tree, names = model.tree_, attribute_names(model)
    found: list[str] = []
    stack: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    while stack:
        node, premises = stack.pop()
        if tree.feature[node] < 0:
            before = f"if {' and '.join(premises)} then " if premises else "always "
            found.append(before + outcome(model, tree, node))
            continue
        name = names[tree.feature[node]]
        ways = [(child, (*premises, f"{name} {answer}")) for child, answer in conditions(model, tree, node)]
        stack += ways[::-1]
    return found
