"""
A mixture of Gaussians: clusters, densities, gaps
=================================================

A Gaussian mixture is the smallest model that does everything: it groups rows, gives an exact density, draws
new rows, and answers in closed form what an unknown column is, given the others.
"""

# %%
# Ellipses
# --------
# The color is the exact density; an ellipse is one, then two standard deviations of a component.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load
from benthic.pictures.plane import box_around, density_map, ellipses

X = np.asarray(load("moons").X)
model = benthic.GaussianMixture(8, random_state=0, n_init=3).fit(X)
print(model.summary())

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
density_map(axes, model.log_prob, box_around(X))
axes.scatter(*X.T, s=3, color="black", alpha=0.4, linewidth=0)
ellipses(axes, model.means_, model.covariances_, model.weights_)
plt.show()

# %%
# How many components, and of what shape?
# ---------------------------------------
# The Bayesian information criterion weighs likelihood against the number of parameters; lower is better.

kinds, counts = ("full", "tied", "diag", "spherical"), range(1, 17)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for kind in kinds:
    scores = [
        benthic.GaussianMixture(k, covariance_type=kind, random_state=0, n_init=2, max_iter=500).fit(X).bic(X)
        for k in counts
    ]
    axes.plot(counts, scores, marker="o", markersize=3, label=kind)
axes.set(xlabel="components", ylabel="BIC")
axes.legend(frameon=False)
plt.show()

# %%
# Learning from rows with gaps
# ----------------------------
# A third of all values of the iris table is deleted. EM takes the expectation over what is missing, with its
# uncertainty, so nothing needs to be dropped or guessed beforehand.

iris = load("iris")
full = np.asarray(iris.X, dtype=float)
rng = np.random.default_rng(0)
gaps = rng.random(full.shape) < 1 / 3
holed = np.where(gaps, np.nan, full)
model = benthic.GaussianMixture(3, random_state=0, n_init=3, max_iter=500).fit(holed)
filled = model.impute(holed)

by_mean = np.where(gaps, np.nanmean(holed, 0), full)
for name, guess in (("column means", by_mean), ("conditional means", filled)):
    print(f"{name:18} root mean squared error {np.sqrt(np.mean((guess - full)[gaps] ** 2)):.3f}")

figure, both = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained", sharex=True, sharey=True)
touched = gaps[:, [0, 2]].any(1)
for axes, rows, title in zip(both, (full, filled), ("the whole table", "a third filled in"), strict=True):
    axes.scatter(rows[~touched, 0], rows[~touched, 2], s=12, color="0.6")
    axes.scatter(rows[touched, 0], rows[touched, 2], s=12, color="C1")
    axes.set(title=title, xlabel="sepal length")
both[0].set_ylabel("petal length")
plt.show()

# %%
# What could it have been?
# ------------------------
# The mean of a gap may lie where no row does. Draws show the whole conditional law: a flower of which only the
# sepal width is known has a short petal or a long one, hardly one in between.

given = np.array([[np.nan, 3.0, np.nan, np.nan]])
drawn = model.sample(2000, given=given, seed=0)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(drawn[:, 2], bins=50, density=True, color="0.8")
axes.axvline(model.impute(given)[0, 2], color="C3", label="conditional mean")
axes.set(xlabel="petal length given sepal width 3.0", ylabel="density")
axes.legend(frameon=False)
plt.show()
