"""
Random forests: many trees that disagree
========================================

A deep tree follows its training rows closely and changes a lot when they change. A forest grows many such trees, each
on rows drawn with replacement and each cut among a few columns drawn anew, and averages them: what they have in common
stays, what they disagree about fades.
"""

# %%
# One tree and a hundred
# ----------------------
# Two half moons. The regions of one tree are boxes with sharp corners around single points; the average of a hundred
# has a smooth edge, and its shade says how sure the forest is.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1, make_moons

import benthic

X, y = make_moons(300, noise=0.3, random_state=0)
first, second = np.meshgrid(np.linspace(-1.8, 2.8, 250), np.linspace(-1.4, 1.9, 200))
grid = np.column_stack([first.ravel(), second.ravel()])

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, trees in zip(axes, (1, 100), strict=True):
    model = benthic.RandomForestClassifier(trees, random_state=0).fit(X, y)
    shade = model.predict_proba(grid)[:, 1].reshape(first.shape)
    ax.contourf(first, second, shade, levels=np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.8)
    ax.scatter(*X.T, c=y, cmap="RdBu_r", edgecolor="white", linewidth=0.5, s=18)
    ax.set_title("one tree" if trees == 1 else f"{trees} trees")
plt.show()

# %%
# A score for free
# ----------------
# Every tree leaves out about a third of the rows. Asked only about rows it has not seen, the forest judges itself:
# the score out of the bag is close to that on new rows, and shows how many trees are enough.

X, y = make_friedman1(1200, noise=1.0, random_state=0)
train, test = slice(0, 600), slice(600, None)
counts = (5, 10, 20, 40, 80, 160, 320)
model = benthic.RandomForestRegressor(warm_start=True, oob_score=True, random_state=0)
bag, new = [], []
for count in counts:
    model.set_params(n_estimators=count).fit(X[train], y[train])
    bag.append(model.oob_score_)
    new.append(model.score(X[test], y[test]))

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.semilogx(counts, bag, "o-", label="out of the bag")
ax.semilogx(counts, new, "s-", label="new rows")
ax.set(xlabel="trees", ylabel="coefficient of determination", xticks=counts, xticklabels=counts)
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()
print(model.summary())

# %%
# How far off, and how sure
# -------------------------
# ``predict_interval`` adds the errors out of the bag to the answer: new targets fall inside as often as it says.
# ``predict_std`` is another thing: how much the answer would move with another training set.

low, high = model.predict_interval(X[test], level=0.9)
inside = (low <= y[test]) & (y[test] <= high)
print(f"{inside.mean():.1%} of the new targets are inside their 90 % interval")
print("standard error of the first answers:", np.round(model.predict_std(X[test][:5]), 2))

# %%
# Which columns matter
# --------------------
# Only the first five columns of these data matter. The gain that cuts on a column brought says so, and so does the
# loss of score when a column is shuffled among new rows; the second works for any model and has error bars that tell
# a useless column from a weak one.

from benthic.trees import permutation_importance

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
model.plot(axes[0])
permutation_importance(model, X[test], y[test], seed=0).plot(axes[1])
plt.show()
