"""
Logistic regression: regions, odds and sparse paths
===================================================

Logistic regression says that the log-odds of one class against another are linear in the features. This
example looks at the regions this gives for three classes, at how an L1 penalty lets features in one by one,
and at what the coefficients mean.
"""

# %%
# Regions of three classes
# ------------------------
# Between any two classes the boundary is a straight line: where their scores are equal. The shade is the
# probability of the most likely class; it fades where the model is unsure.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load

iris = load("iris")
X, y = np.asarray(iris.X, dtype=float)[:, 2:], np.asarray(iris.y)
model = benthic.LogisticRegression(C=10.0).fit(X, y)
print(model.summary())

low, high = X.min(0) - 0.5, X.max(0) + 0.5
first, second = np.meshgrid(np.linspace(low[0], high[0], 300), np.linspace(low[1], high[1], 300))
probability = model.predict_proba(np.column_stack([first.ravel(), second.ravel()]))

colors = np.array([[0.23, 0.44, 0.71], [0.93, 0.62, 0.18], [0.36, 0.62, 0.35]])
shade = 1 - (1 - colors[probability.argmax(1)]) * (probability.max(1, keepdims=True) - 1 / 3) * 0.9
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.imshow(shade.reshape(300, 300, 3), origin="lower", extent=(low[0], high[0], low[1], high[1]), aspect="auto")
for label, color in zip(model.classes_, colors, strict=True):
    rows = y == label
    axes.scatter(*X[rows].T, color=color, edgecolor="white", linewidth=0.6, s=28, label=str(label))
axes.set(xlabel="petal length (cm)", ylabel="petal width (cm)")
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# The path of an L1 penalty
# -------------------------
# With ``l1_ratio=1`` coefficients are exactly zero until a feature earns its place. Raising ``C`` weakens the
# penalty; ``warm_start`` begins each fit where the last one ended, so a path of forty fits costs little more
# than a few.

tumors = load("breast_cancer")
X, y = np.asarray(tumors.X, dtype=float), np.asarray(tumors.y)
X = (X - X.mean(0)) / X.std(0)

strengths = np.geomspace(2e-3, 3, 40)
model = benthic.LogisticRegression(l1_ratio=1.0, warm_start=True)
path = np.array([model.set_params(C=C).fit(X, y).coef_[0] for C in strengths])
steps = [int((row != 0).sum()) for row in path]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[2, 1])
axes[0].semilogx(strengths, path, linewidth=1.2)
axes[0].axhline(0, color="0.3", linewidth=0.8)
axes[0].set(xlabel="C", ylabel="coefficient")
axes[1].semilogx(strengths, steps, drawstyle="steps-post")
axes[1].set(xlabel="C", ylabel="features with a coefficient", yticks=range(0, 21, 5))
plt.show()

# %%
# What a coefficient means
# ------------------------
# One unit more of a feature (here: one standard deviation) adds its coefficient to the log-odds of the second
# class. ``plot`` draws those that are not zero, the largest on top; a moderate penalty keeps a handful.

from sklearn.datasets import load_breast_cancer

frame = load_breast_cancer(as_frame=True).data
frame = (frame - frame.mean()) / frame.std()
labels = np.where(y == 1, "benign", "malignant")
sparse = benthic.LogisticRegression(C=0.05, l1_ratio=1.0).fit(frame, labels)
picture = sparse.plot()
picture

# %%
# Newton and L-BFGS end at the same place
# ---------------------------------------
# The objective is convex, so the way does not matter, only how fast it is: Newton's method takes few steps that
# each build a Hessian, L-BFGS takes more and cheaper ones. ``solver="auto"`` chooses by size.

for solver in ("newton", "lbfgs"):
    fitted = benthic.LogisticRegression(solver=solver, tol=1e-8).fit(X, y)
    print(f"{solver:7} {int(fitted.n_iter_[0]):3} steps, objective {fitted.history_[-1]['loss']:.12f}")
