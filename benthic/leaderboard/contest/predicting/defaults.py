"""Who takes part where nobody is named: models of the catalogue that suit the task and the size of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.leaderboard.contest.records import Contestant

# most rows to fit, None for any; whether columns are brought to one scale before it; settings beside the usual ones
_Suited = tuple[int | None, bool, dict[str, Any]]

_CLASSIFIERS: dict[str, _Suited] = {
    "LogisticRegression": (None, True, {}),
    "LinearDiscriminantAnalysis": (None, False, {}),
    "GaussianNB": (None, False, {}),
    "KNeighborsClassifier": (100_000, True, {}),
    "SVC": (10_000, True, {}),
    "GaussianProcessClassifier": (500, True, {}),
    "DecisionTreeClassifier": (None, False, {"min_samples_leaf": 5}),
    "RandomForestClassifier": (200_000, False, {}),
    "GradientBoostingClassifier": (None, False, {}),
    "MLPClassifier": (None, False, {}),
}
_REGRESSORS: dict[str, _Suited] = {
    "LinearRegression": (None, False, {}),
    "Ridge": (None, True, {}),
    "KNeighborsRegressor": (100_000, True, {}),
    "SVR": (10_000, True, {}),
    "GaussianProcessRegressor": (1_500, True, {"normalize_y": True}),
    "DecisionTreeRegressor": (None, False, {"min_samples_leaf": 5}),
    "RandomForestRegressor": (200_000, False, {"oob_score": True}),
    "GradientBoostingRegressor": (None, False, {}),
    "MLPRegressor": (None, False, {}),
}
_LISTS = {"classify": _CLASSIFIERS, "regress": _REGRESSORS}
_CHOOSING = 2000  # rows looked at to choose a number of clusters


def default_predictors(task: str, space: np.ndarray, y: np.ndarray | None = None) -> list[Contestant]:
    """Contestants for a task, from the catalogue.

    Models that compare every pair of rows are left out where there are many, and those that take no gaps where there
    are some. Models that depend on the scales of columns get them standardized. Clusters are as many as the classes of
    ``y``, or as the silhouette of k-means says.

    space: (n, d) the rows as numbers, NaN for gaps. y: (n,) or None.

    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> [c.name for c in default_predictors("cluster", rows, np.arange(60) % 3)]
    ['KMeans', 'GaussianMixture', 'Mixture']
    """
    if task == "cluster":
        return _clusterers(clusters_in(space, y), bool(np.isnan(space).any()))
    n, gaps = len(space), bool(np.isnan(space).any())
    found = []
    for name, (most, scaled, settings) in _LISTS[task].items():
        entry = catalogue()[name]
        if (most is not None and n > most) or (gaps and "missing" not in entry.data):
            continue
        if name == "SVR" and y is not None:  # its margin and penalty are in the units of the targets
            settings = {"C": float(np.std(y)), "epsilon": 0.1 * float(np.std(y))}
        model = entry.cls(**settings)
        found.append(Contestant(name, _scaled(model) if scaled else model, "catalogue"))
    return found


def clusters_in(space: np.ndarray, y: np.ndarray | None) -> int:
    """How many clusters to ask for: the classes of y, or the number with the best silhouette."""
    if y is not None:
        return len(np.unique(y))
    from benthic.cluster.choosing import choose_clusters

    whole = space[~np.isnan(space).any(1)]
    if len(whole) < 20:
        return 3
    return int(choose_clusters(whole[:: max(1, len(whole) // _CHOOSING)], "silhouette", 8, seed=0).best)


def _clusterers(k: int, gaps: bool) -> list[Contestant]:
    names = {"KMeans": "n_clusters", "GaussianMixture": "n_components", "Mixture": "n_components"}
    kept = [name for name in names if not gaps or "missing" in catalogue()[name].data]
    return [Contestant(name, catalogue()[name].cls(**{names[name]: k}), "catalogue") for name in kept]


def _scaled(model: Any) -> Any:
    """The model after a step that standardizes; the columns of a frame become numbers before that."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    return Pipeline([("scale", StandardScaler()), ("model", model)])
