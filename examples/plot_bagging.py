"""
Bagging: an average of trees, with error bars
=============================================

One tree changes much when a few rows change. Bagging fits many trees to resamples of the rows and averages them:
the variance falls, the bias stays. The rows left out of a resample judge its tree for free, and the spread over
resamples gives error bars.
"""

# %%
# A staircase becomes a curve
# ---------------------------
# The band is two standard errors by the infinitesimal jackknife: how far the curve would move with another sample
# of rows.

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
x = np.sort(np.concatenate([rng.uniform(0, 3.2, 90), rng.uniform(4.2, 6, 40)]))
y = np.sin(x) + 0.25 * rng.normal(size=len(x))
line = np.linspace(0, 6, 400)[:, None]

one = benthic.DecisionTreeRegressor(min_samples_leaf=5).fit(x[:, None], y)
many = benthic.BaggingRegressor(one, n_estimators=300, oob_score=True, random_state=0).fit(x[:, None], y)
middle, error = many.predict(line), many.standard_error(line)
print(many.summary())

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
axes[0].plot(line, one.predict(line), color="#c8553d")
axes[0].set(title="one tree", xlabel="x")
axes[1].fill_between(line[:, 0], middle - 2 * error, middle + 2 * error, color="#3b6fb5", alpha=0.25, linewidth=0)
axes[1].plot(line, middle, color="#3b6fb5")
axes[1].set(title=f"{len(many.estimators_)} trees and two standard errors", xlabel="x")
for ax in axes:
    ax.scatter(x, y, s=8, color="0.6")
    ax.plot(line, np.sin(line), color="0.3", linewidth=1, linestyle=":")
plt.show()

# %%
# Left-out rows tell the truth
# ----------------------------
# Accuracy on the training rows is near 1 and says nothing. The out-of-bag accuracy, from trees that have not seen
# the row, stays close to the accuracy on fresh rows.


def draw(n):
    rows = rng.normal(size=(n, 6))
    return rows, np.where(rows[:, 0] * rows[:, 1] + rows[:, 2] + 0.7 * rng.normal(size=n) > 0, "above", "below")


(rows, labels), (fresh, truth) = draw(500), draw(4000)
counts = [20, 35, 60, 100, 160]
found = []
for count in counts:
    model = benthic.BaggingClassifier(n_estimators=count, oob_score=True, random_state=0).fit(rows, labels)
    found.append((model.score(rows, labels), model.oob_score_, model.score(fresh, truth)))

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
names, colors = ("training rows", "out of bag", "fresh rows"), ("0.6", "#3b6fb5", "#c8553d")
for values, name, color in zip(np.transpose(found), names, colors, strict=True):
    axes.plot(counts, values, marker="o", markersize=4, label=name, color=color)
axes.set(xlabel="trees", ylabel="accuracy", ylim=(0.6, 1.02))
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# What the trees ask about, with the spread from tree to tree; the last three columns are noise:

model.plot()
