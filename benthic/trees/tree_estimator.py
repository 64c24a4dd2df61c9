"""What trees for classes and for numbers share: data in, growth, pruning, walks, words and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.schema import is_frame
from benthic.base.seeds import derive, seed_of
from benthic.base.settings import number
from benthic.training.intake import Intake
from benthic.trees.attributes import attribute_names, coded, collapse, declared, forget_unknown, learn_categories
from benthic.trees.settings import count_or_share, feature_count, limit
from benthic.trees.structure import Tree


class _TreeEstimator(Estimator):
    """A fitted tree is kept as a dict of arrays; ``tree_`` shows it as a ``Tree``."""

    accepts_missing = True
    _nodes: dict[str, np.ndarray]

    # -- data in -----------------------------------------------------------------------------------------

    def _arrive(
        self, X: Any, method: str, *, reset: bool = False, missing: bool | None = None
    ) -> tuple[Tensor, Origin]:
        schema = getattr(self, "schema_", None)
        if not reset and schema is not None and is_frame(X):
            X = forget_unknown(X, schema)
        return super()._arrive(X, method, reset=reset, missing=missing)

    def _attributes(self, X: Tensor) -> Tensor:
        """One column for each attribute (n, d), categories as whole numbers."""
        schema = getattr(self, "schema_", None)
        return coded(collapse(X, schema), schema, self.categories_)

    def _learn_attributes(self, X: Tensor, all_columns: bool) -> tuple[np.ndarray, np.ndarray]:
        """Attributes (d, n) on the CPU and how many categories each has, 0 for numbers."""
        schema, names = getattr(self, "schema_", None), attribute_names(self)
        setting: Any = getattr(self, "categorical_features", None)
        values = collapse(X, schema)
        self.categories_ = learn_categories(values, schema, declared(setting, names), all_columns, names)
        columns = coded(values, schema, self.categories_).T.contiguous().cpu().numpy()
        counts = [0 if known is None else len(known) for known in self.categories_]
        return columns, np.array(counts, np.int64)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Leave the model as it was if learning fails."""
        before = dict(vars(self))
        try:
            yield
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _common_limits(self, rows: int, d: int) -> dict[str, Any]:
        """The settings that stop growth, checked. rows: that have weight."""
        get: Any = self.get_params(deep=False).get
        return {
            "max_depth": limit("max_depth", get("max_depth"), 1),
            "max_leaves": limit("max_leaf_nodes", get("max_leaf_nodes"), 2),
            "min_split": count_or_share("min_samples_split", get("min_samples_split"), 2, rows),
            "min_leaf": count_or_share("min_samples_leaf", get("min_samples_leaf"), 1, rows),
            "min_decrease": number("min_impurity_decrease", get("min_impurity_decrease")),
            "max_features": feature_count(get("max_features"), d),
        }

    def _seed_state(self) -> np.ndarray:
        """The state of the random numbers of the compiled growth."""
        state: Any = getattr(self, "random_state", None)
        return np.array([derive(seed_of(state), "tree") | 1], dtype=np.uint64)

    # -- answers -----------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The fitted tree as parallel arrays."""
        return Tree(**self._nodes)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in all gain, (n_features_in_,): columns of a frame that were left out have none."""
        found, schema = self.tree_.importances(), getattr(self, "schema_", None)
        if schema is None or len(schema.names) == len(found):
            return found
        own = dict(zip([column.name for column in schema.columns], found, strict=True))
        return np.array([own.get(name, 0.0) for name in schema.names])

    def apply(self, X: Any) -> Any:
        """The leaf that each row ends in, (n,); for a row in fractions the one with the largest."""
        tensor, origin = self._arrive(X, "apply")
        return origin.mirror(self.tree_.leaf_of(self._attributes(tensor)))

    def decision_path(self, X: Any) -> Any:
        """Which nodes each row passes, a sparse matrix (n, nodes) of zeros and ones."""
        from scipy.sparse import csr_matrix

        tensor, _ = self._arrive(X, "decision_path")
        tree = self.tree_
        at = tree.leaf_of(self._attributes(tensor)).cpu().numpy()
        rows, here, places = np.arange(len(at)), [], []
        while len(at):
            here.append(rows)
            places.append(at)
            rows, at = rows[tree.parent[at] >= 0], tree.parent[at][tree.parent[at] >= 0]
        entries = np.ones(sum(map(len, here)), np.int64)
        shape = (len(tensor), tree.node_count)
        return csr_matrix((entries, (np.concatenate(here), np.concatenate(places))), shape=shape)

    def get_depth(self) -> int:
        """The number of questions on the longest way down."""
        return int(self.tree_.depth.max())

    def get_n_leaves(self) -> int:
        """The number of leaves."""
        return len(self.tree_.leaves)

    # -- words and pictures --------------------------------------------------------------------------------

    def rules(self) -> list[str]:
        """One sentence for each leaf: if ... and ... then ..."""
        from benthic.trees.wording import rules

        return rules(self)

    def export_text(self, max_depth: int | None = None) -> str:
        """The tree as indented text, down to ``max_depth`` questions."""
        from benthic.trees.wording import text

        return text(self, max_depth)

    def plot(self, ax: Any = None, max_depth: int | None = None) -> Any:
        """A picture of the tree: questions, numbers of rows, class shares or means.

        max_depth: questions to draw; without it as many levels as stay readable.
        """
        from benthic.trees.picture import plot_tree

        return plot_tree(self, ax, max_depth)

    def _facts(self) -> dict[str, Any]:
        tree, names = self.tree_, attribute_names(self)
        top = np.argsort(-tree.importances(), kind="stable")[:3]
        return {
            "depth": self.get_depth(),
            "leaves": self.get_n_leaves(),
            "rows in a leaf": f"{tree.rows[tree.leaves].min()} to {tree.rows[tree.leaves].max()}",
            "asks most": ", ".join(f"{names[j]} ({tree.importances()[j]:.2f})" for j in top),
        }


def in_memory(intake: Intake) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """All rows of the training data, their targets and their weights; a file is read as a whole."""
    X, y, weight = intake.sample(intake.rows, 0)
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    targets = y.cpu().numpy()
    targets = targets.astype(np.float64) if targets.dtype.kind == "f" else targets
    return X, targets, np.ones(len(X)) if weight is None else weight.double().cpu().numpy()
