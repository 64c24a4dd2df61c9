"""
Maps of digits: five ways to see 64 columns in a plane
======================================================

A projection keeps something and gives up the rest: variance, the distance between classes, all distances, distances
along a surface, or who is whose neighbor.
"""

# %%
# The same rows, five maps
# ------------------------
# The number above each map is its trustworthiness: how few neighbors on the map are strangers in the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_swiss_roll

import benthic
from benthic.metrics import trustworthiness

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
models = {
    "PCA: variance": benthic.PCA(2),
    "discriminant: classes": benthic.LinearDiscriminantAnalysis(2),
    "MDS: all distances": benthic.MDS(2, n_init=1, tol=1e-4, random_state=0),
    "Isomap: along the data": benthic.Isomap(2, n_neighbors=10),
    "t-SNE: neighbors": benthic.TSNE(max_iter=500, random_state=0),
}
figure, grid = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for axes, (name, model) in zip(grid.flat, models.items(), strict=False):
    Z = model.fit_transform(X, y)
    axes.scatter(*Z.T, c=y, cmap="tab10", s=5, linewidth=0)
    axes.set(title=f"{name}, {trustworthiness(X, Z).value:.3f}", xticks=[], yticks=[])
grid.flat[-1].axis("off")
plt.show()

# %%
# Unrolling a surface
# -------------------
# Points of a rolled sheet that are near in space may be far apart on the sheet. PCA looks at space, Isomap walks.

roll, along = make_swiss_roll(900, random_state=0)
flat = benthic.Isomap(2, n_neighbors=10).fit_transform(roll)
figure = plt.figure(figsize=(9, 3), layout="constrained")
axes = figure.add_subplot(131, projection="3d")
axes.scatter(*roll.T, c=along, s=4)
axes.set_title("a sheet, rolled up")
for place, (name, Z) in enumerate({"PCA": benthic.PCA(2).fit_transform(roll), "Isomap": flat}.items(), 2):
    axes = figure.add_subplot(1, 3, place)
    axes.scatter(*Z.T, c=along, s=4)
    axes.set(title=name, xticks=[], yticks=[])
plt.show()

# %%
# A projection that is also a law
# -------------------------------
# PCA comes with a Gaussian: it gives densities, draws new digits, and fills in the lower half of a digit from the
# upper one.

model = benthic.PCA(0.9).fit(X)
print(model.summary())
half = X[:8].copy()
half[:, 32:] = np.nan
figure, grid = plt.subplots(3, 8, figsize=(8, 3.2), layout="constrained")
for line, rows in zip(grid, (X[:8], model.impute(half), model.sample(8, seed=0)), strict=True):
    for axes, image in zip(line, rows, strict=True):
        axes.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axes.set(xticks=[], yticks=[])
for axes, name in zip(grid[:, 0], ("true", "lower half filled", "drawn"), strict=True):
    axes.set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
