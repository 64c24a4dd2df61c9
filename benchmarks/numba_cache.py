"""What compiled models cost a second process: its first fit, beyond imports, with the cache filled."""

from __future__ import annotations

import tempfile

import numpy as np

from benchmarks.harness import median_interval, python
from benchmarks.report import Claim, Result

TITLE = "First fit of a second process, compiled code cached: seconds beyond imports"
FITS = {
    "RandomForestClassifier": "benthic.RandomForestClassifier(10, n_jobs=2).fit(X, y > 0)",
    "RandomForestRegressor": "benthic.RandomForestRegressor(10, n_jobs=2).fit(X, y)",
    "GradientBoostingClassifier": "benthic.GradientBoostingClassifier(max_iter=10, n_jobs=2).fit(X, y > 0)",
    "GradientBoostingRegressor": "benthic.GradientBoostingRegressor(max_iter=10, n_jobs=2).fit(X, y)",
    "DecisionTreeClassifier": "benthic.DecisionTreeClassifier().fit(X, y > 0)",
    "SVC": "benthic.SVC().fit(X, y > 0)",
    "Lasso": "benthic.Lasso(alpha=0.1).fit(X, y)",
    "KNeighborsClassifier": "benthic.KNeighborsClassifier().fit(X, y > 0).predict(X[:100])",
    "KMeans": "benthic.KMeans(5, random_state=0).fit(X)",
}
_SCRIPT = """
import json, time
import numpy as np
import benthic
from benthic import {name}
rng = np.random.default_rng(0)
X, y = rng.normal(size=(2000, 10)), rng.normal(size=2000)
began = time.perf_counter()
{fit}
first = time.perf_counter() - began
began = time.perf_counter()
{fit}
print(json.dumps(first - (time.perf_counter() - began)))
"""


def overhead(name: str, cache: str) -> float:
    """Seconds by which the first fit of a new process is slower than its second."""
    return float(python("-c", _SCRIPT.format(name=name, fit=FITS[name]), NUMBA_CACHE_DIR=cache))


def run(quick: bool = False) -> Result:
    """Fill an empty cache, then start processes."""
    claims, compiled = [], {}
    with tempfile.TemporaryDirectory() as cache:
        for name in FITS:
            compiled[name] = overhead(name, cache)
            later = np.array([overhead(name, cache) for _ in range(1 if quick else 3)])
            claims.append(Claim(f"{name}: first fit of a second process", median_interval(later), "<=", 1.0, " s"))
    return Result("numba_cache", TITLE, claims, settings={"seconds of the process that compiles": compiled})
