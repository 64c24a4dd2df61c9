"""Decision trees, one at a time or many together."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "BaggingClassifier": "benthic.trees.bagging",
    "BaggingRegressor": "benthic.trees.bagging",
    "DecisionTreeClassifier": "benthic.trees.decision_tree",
    "DecisionTreeRegressor": "benthic.trees.decision_tree",
    "GradientBoostingClassifier": "benthic.trees.boosting",
    "GradientBoostingRegressor": "benthic.trees.boosting",
    "Importances": "benthic.trees.importance",
    "RandomForestClassifier": "benthic.trees.forest",
    "RandomForestRegressor": "benthic.trees.forest",
    "permutation_importance": "benthic.trees.importance",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
