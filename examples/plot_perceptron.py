"""
The perceptron: mistakes, margins and a bound
=============================================

A perceptron moves its hyperplane whenever it gets a row wrong, and never else. If some hyperplane separates the
classes with margin γ and all rows lie within radius R, it makes at most R²/γ² mistakes, however many rows there
are and in whatever order they come.
"""

# %%
# Learning from mistakes
# ----------------------
# The line the perceptron finds separates the classes, but it is not the one with the widest margin; that one is
# computed apart, because the bound speaks of it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import benthic
from benthic.linear import ThresholdUnit, find_unit, widest_margin

rng = np.random.default_rng(4)
X = rng.normal(size=(400, 2))
side = X @ np.array([0.8, 0.6])
X, y = X[np.abs(side) > 0.25][:120], (side[np.abs(side) > 0.25] > 0)[:120]

model = benthic.Perceptron(fit_intercept=False, random_state=0).fit(X, y)
print(model.summary())
best = widest_margin(X * np.where(y, 1.0, -1.0)[:, None])

figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
for label, color in ((True, "#c8553d"), (False, "#3b6fb5")):
    axes.scatter(*X[y == label].T, s=14, color=color)
used = model.dual_coef_[0] != 0
axes.scatter(*X[used].T, s=90, facecolor="none", edgecolor="0.2", label="rows it learned from")
for w, style, name in ((model.coef_[0], "-", "perceptron"), (best.direction, "--", "widest margin")):
    line = np.array([-w[1], w[0]]) / np.linalg.norm(w) * 4
    axes.plot([-line[0], line[0]], [-line[1], line[1]], style, color="0.2", label=name)
axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
axes.legend(frameon=False, loc="lower left", fontsize="small")
plt.show()

# %%
# The bound holds, and is rarely reached
# --------------------------------------
# Narrow margins allow more mistakes. Each point is one data set with its rows in one order.

bounds, updates = [], []
for seed in range(120):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 5))
    w = rng.normal(size=5)
    distance = rows @ w / np.linalg.norm(w)
    rows = rows[np.abs(distance) > 10 ** rng.uniform(-2, -0.3)]
    fitted = benthic.Perceptron(fit_intercept=False, max_iter=20_000, random_state=seed).fit(rows, rows @ w > 0)
    bounds.append(fitted.bound_)
    updates.append(fitted.updates_)

figure, axes = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
axes.loglog(bounds, updates, ".", color="#3b6fb5")
ends = [min(bounds), max(bounds)]
axes.loglog(ends, ends, color="0.3", linewidth=1, label="as many as the bound allows")
axes.set(xlabel="bound R²/γ²", ylabel="updates made")
axes.legend(frameon=False)
plt.show()

# %%
# Classes that cannot be separated
# --------------------------------
# Two irises overlap: no hyperplane separates them, which the model finds out and says. The plain perceptron then
# wanders for ever; the pocket keeps the best weights it has met, averaging smooths the walk.

flowers, species = load_iris(return_X_y=True)
flowers, species = flowers[50:], species[50:]
for variant in ("pocket", "averaged"):
    fitted = benthic.Perceptron(variant=variant, random_state=0).fit(flowers, species)
    print(f"{variant:9} separable: {fitted.separable_}, accuracy {fitted.score(flowers, species):.3f}")

# %%
# What one unit can compute
# -------------------------
# A threshold unit computes a Boolean function exactly if a hyperplane separates its ones from its zeros. Of the
# sixteen functions of two inputs only XOR and its complement have no such unit; two layers have one.

for name, truth in {"and": (0, 0, 0, 1), "or": (0, 1, 1, 1), "xor": (0, 1, 1, 0)}.items():
    print(f"{name:4} {find_unit(truth)}")
inputs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
either, both = ThresholdUnit.any_of(2)(inputs), ThresholdUnit.all_of(2)(inputs)
print("xor by two layers:", ThresholdUnit((1, 0), 1, inhibitory=(1,))(np.column_stack([either, both])).tolist())
