"""
Mixtures of anything
====================

One estimator, one E step, any laws: each component brings its own weighted maximum likelihood. Here are heavy
tails that a normal mixture mistakes for clusters, directions on a sphere, a table of mixed columns, and a Dirichlet
process that finds out how many components there are.
"""

# %%
# Heavy tails
# -----------
# Two clusters with outliers. A mixture of normal laws spends components on the outliers, and BIC asks for more of
# them; Student's t learns how heavy the tails are, and two suffice.

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy import stats

from benthic import Mixture

rng = np.random.default_rng(0)
X = np.concatenate(
    [
        stats.multivariate_t.rvs([0, 0], [[1, 0.6], [0.6, 1]], df=2.5, size=400, random_state=1),
        stats.multivariate_t.rvs([7, 3], np.eye(2), df=4, size=400, random_state=2),
    ]
)
X = X[np.abs(X).max(1) < 25]
normal = Mixture("bic", components="normal", max_components=6, random_state=0).fit(X)
heavy = Mixture("bic", components="t", max_components=6, random_state=0).fit(X)
print("components by BIC:", normal.n_components_, "normal,", heavy.n_components_, "t")
print("degrees of freedom:", heavy.parameters_[0]["df"].round(1))

grid = np.stack(np.meshgrid(np.linspace(-12, 18, 160), np.linspace(-12, 14, 140)), -1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, model, name in zip(axes, (normal, heavy), ("normal", "t"), strict=True):
    log = model.log_prob(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.contour(*np.moveaxis(grid, -1, 0), log, levels=np.arange(-14, 0, 1.5), linewidths=0.7, cmap="viridis")
    ax.scatter(*X.T, s=5, c=model.predict(X), cmap="tab10", vmin=0, vmax=9, alpha=0.7)
    ax.set(title=f"{model.n_components_} components of {name}", xlim=(-12, 18), ylim=(-12, 14))

# %%
# The objective never falls
# -------------------------
# Every step is recorded. Splitting and merging continues from the best start with one component cut in two and two
# joined, and leaves bad starts behind.

blobs = np.concatenate([rng.normal(c, 0.6, (150, 2)) for c in ([0, 0], [4, 4], [0, 5], [6, 0])])
bad = np.where(np.arange(600) < 300, rng.integers(2, size=600), 2 + (np.arange(600) % 2))
model = Mixture(4, init=bad, split_merge=4, max_iter=60, random_state=0).fit(blobs)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for number, steps in pd.DataFrame(model.history_).groupby("restart"):
    ax.plot(
        steps["step"], steps["objective"], marker=".", label="start" if number == 0 else f"split and merge {number}"
    )
ax.set(xlabel="EM step", ylabel="objective a row")
ax.legend(fontsize=8)

# %%
# Directions
# ----------
# Rows are taken as directions, and their lengths do not count.

turns = np.concatenate(
    [
        stats.vonmises_fisher([1, 0, 0], 30).rvs(200, random_state=1),
        stats.vonmises_fisher([0, 0.6, 0.8], 10).rvs(200, random_state=2),
        stats.vonmises_fisher([-0.6, -0.8, 0], 60).rvs(200, random_state=3),
    ]
)
directions = Mixture(3, components="von_mises_fisher", random_state=0).fit(turns)
print("concentrations:", directions.parameters_[0]["concentration"].round(1))
figure = directions.plot(turns)

# %%
# A table of mixed columns
# ------------------------
# Numbers are normal, whole numbers counts, words categories, and yes or no Bernoulli, guessed from the table. Values
# may be missing. A Dirichlet process with room for ten components uses three.

group = rng.integers(3, size=600)
table = pd.DataFrame(
    {
        "age": rng.normal(np.array([25, 45, 70])[group], 5),
        "visits": rng.poisson(np.array([1, 4, 12])[group]),
        "city": np.array(["Bern", "Rome", "Oslo"])[(group + (rng.random(600) < 0.2)) % 3],
        "retired": rng.random(600) < np.array([0.01, 0.05, 0.9])[group],
    }
)
table.loc[rng.random(600) < 0.1, "age"] = None
process = Mixture(10, weight_concentration=0.5, tol=1e-7, max_iter=2000, random_state=0).fit(table)
print(process.summary())
print("weights:", process.weights_.round(3))
print(process.impute(table[table["age"].isna()]).head())
figure = process.plot(table)

# %%
# What the model knows of somebody retired in Bern:

known = pd.DataFrame({"age": [None], "visits": [None], "city": ["Bern"], "retired": [True]})
known = known.astype({"age": float, "visits": "Int64"})
print(process.sample(5, given=known, seed=0))
