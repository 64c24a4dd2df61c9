"""
Logistic regression: straight borders, sparse coefficients
==========================================================

The log-odds of a class are linear in the features. That makes the model easy to read, and its fit a convex
problem with one answer: several solvers must agree on it.
"""

# %%
# Borders between three classes
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load

iris = load("iris")
X, y = np.asarray(iris.X)[:, 2:4], np.asarray(iris.y)
model = benthic.LogisticRegression(C=10.0).fit(X, y)
print(model.summary())

a, b = np.meshgrid(np.linspace(0.5, 7.5, 300), np.linspace(-0.2, 2.9, 200))
P = model.predict_proba(np.stack([a.ravel(), b.ravel()], axis=1)).reshape(*a.shape, 3)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.imshow(P, extent=(0.5, 7.5, -0.2, 2.9), origin="lower", aspect="auto", alpha=0.35)
for k, color in enumerate(("red", "green", "blue")):
    chosen = y == model.classes_[k]
    axes.scatter(*X[chosen].T, s=12, color=color, label=str(model.classes_[k]))
axes.set(xlabel="petal length", ylabel="petal width", title="color: probability of each class")
axes.legend(frameon=False)
plt.show()

# %%
# Two ways to the same answer
# ---------------------------
# Newton takes few steps and looks at second derivatives; L-BFGS takes more and learns the curvature.

for solver in ("newton", "lbfgs"):
    found = benthic.LogisticRegression(C=10.0, solver=solver, tol=1e-8, max_iter=500).fit(X, y)
    print(f"{solver:7} {int(found.n_iter_[0]):3d} steps, first coefficient {found.coef_[0, 0]:.8f}")

# %%
# An L1 penalty chooses features
# ------------------------------
# As the penalty weakens, coefficients of the breast-cancer table leave zero one by one.

cancer = load("breast_cancer")
X = np.asarray(cancer.X, dtype=float)
X = (X - X.mean(0)) / X.std(0)
strengths = np.logspace(-2.5, 0.5, 25)
path = [benthic.LogisticRegression(C=C, l1_ratio=1.0, max_iter=500).fit(X, cancer.y).coef_[0] for C in strengths]
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(strengths, path, linewidth=1)
axes.set(xscale="log", xlabel="C (weaker penalty to the right)", ylabel="coefficient")
axes.set_title(f"{sum(c != 0 for c in path[0])} features at the left end, {sum(c != 0 for c in path[-1])} at the right")
plt.show()
