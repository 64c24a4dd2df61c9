"""
Nearest neighbors
=================

The simplest predictor keeps all examples and asks the nearest ones. Here: how the number of neighbors shapes the
regions of the classes, which ways there are to find them, and when a tree of boxes beats looking at everything.
"""

# sphinx_gallery_thumbnail_number = 1

# %%
# One neighbor or many
# --------------------
# With one neighbor every example owns the land around it; with more, single examples lose their islands.

import time

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
angle = rng.uniform(0, np.pi, 300)
moons = np.stack([np.cos(angle), np.sin(angle)], 1)
y = np.repeat([0, 1], 150)
X = np.where(y[:, None] == 0, moons, [1, 0.4] - moons) + 0.25 * rng.normal(size=(300, 2))

across = np.linspace(-1.8, 2.8, 140)
grid = np.stack(np.meshgrid(across, np.linspace(-1.5, 1.9, 140)), -1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained", sharey=True)
for axis, k in zip(axes, (1, 15, 99), strict=True):
    model = benthic.KNeighborsClassifier(k).fit(X, y)
    share = model.predict_proba(grid)[:, 1].reshape(140, 140)
    axis.contourf(across, np.linspace(-1.5, 1.9, 140), share, levels=11, cmap="RdBu_r", alpha=0.6, vmin=0, vmax=1)
    axis.scatter(*X.T, c=y, cmap="RdBu_r", s=9, edgecolor="white", linewidth=0.3)
    axis.set_title(f"{k} neighbor{'s' * (k > 1)}", fontsize="medium")
plt.show()

# %%
# Choosing the number
# -------------------
# The error on the examples themselves says nothing: with one neighbor it is zero. Cross-validation shows the valley.

from sklearn.model_selection import cross_val_score

counts = [1, 2, 3, 5, 8, 12, 20, 35, 60, 100]
errors = [1 - cross_val_score(benthic.KNeighborsClassifier(k), X, y, cv=10).mean() for k in counts]
own = [1 - benthic.KNeighborsClassifier(k).fit(X, y).score(X, y) for k in counts]
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
axis.semilogx(counts, errors, marker="o", markersize=4, label="cross-validated")
axis.semilogx(counts, own, marker="o", markersize=4, label="on the examples")
axis.set(xlabel="neighbors", ylabel="error")
axis.legend(frameon=False)
plt.show()

# %%
# Every way finds the same neighbors
# ----------------------------------
# The tree, the matrix products and any metric of your own are exact, and of equal distances the example stored first
# comes first. So the algorithm only decides the time.

points, queries = rng.normal(size=(20_000, 3)), rng.normal(size=(2000, 3))
found = {}
for way in ("kd_tree", "brute"):
    model = benthic.KNeighborsRegressor(5, algorithm=way).fit(points, points[:, 0])
    found[way] = model.kneighbors(queries, return_distance=False)
model = benthic.KNeighborsRegressor(5, metric=lambda a, b: (a - b).square().sum(-1)).fit(points, points[:, 0])
found["my own function"] = model.kneighbors(queries[:50], return_distance=False)
print({way: bool((index[:50] == found["brute"][:50]).all()) for way, index in found.items()})

# %%
# When does a tree win?
# ---------------------
# In few dimensions a tree rules out nearly everything. With more of them all points are about equally far, and it looks
# at them all, one by one, while products look at many at a time. ``algorithm="auto"`` changes over where they cross.

widths = [2, 3, 4, 6, 8, 10, 12]
seconds = {"kd_tree": [], "brute": []}
for d in widths:
    points, queries = rng.normal(size=(20_000, d)), rng.normal(size=(200, d))
    for way, times in seconds.items():
        model = benthic.KNeighborsRegressor(5, algorithm=way).fit(points, points[:, 0])
        model.kneighbors(queries[:2])
        begun = time.perf_counter()
        model.kneighbors(queries)
        times.append(time.perf_counter() - begun)
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
for way, times in seconds.items():
    axis.semilogy(widths, 1e3 * np.array(times), marker="o", markersize=4, label=way)
axis.set(xlabel="columns", ylabel="milliseconds for 200 queries")
axis.legend(frameon=False)
plt.show()
