"""
Support vector machines: margins, kernels and a proof
=====================================================

A support vector machine looks for the widest street between two classes. Only the rows on its curb, or on the street
itself, decide where it runs: the support vectors. This example widens and narrows the street, bends it with kernels,
reads the certificate that says how far a fit is from the optimum, and draws the tube of a regression.
"""

# %%
# The price of standing in the street
# -----------------------------------
# ``C`` is what a row inside the margin costs. A small ``C`` buys a wide street with many rows on it; an infinite ``C``
# allows none, and says so if the classes cannot be separated. The solid line is the boundary, the dashed lines are the
# curbs, and the larger dots are the support vectors.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.kernels import RBF, Matern, Polynomial

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal([-1.6, 0], 0.75, (60, 2)), rng.normal([1.6, 0.6], 0.75, (60, 2))])
y = np.repeat(["left", "right"], 60)

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, C in zip(axes, (0.02, 1.0, 100.0), strict=True):
    model = benthic.SVC(kernel="linear", C=C).fit(X, y)
    model.plot(X, y, ax=ax)
    width = 2 / np.linalg.norm(model.coef_)
    ax.set_title(f"C = {C:g}: {len(model.support_)} support vectors, street {width:.2f} wide", fontsize="medium")
plt.show()

try:
    benthic.SVC(kernel="linear", C=np.inf).fit(np.concatenate([X, X[:1]]), np.append(y, "right"))
except ValueError as error:
    print(error)

# %%
# Bending the street
# ------------------
# A kernel measures likeness in another space, where the street is straight again. The named kernels are scikit-learn's;
# any kernel of ``benthic.kernels``, sum or product of them, does too.

from sklearn.datasets import make_moons

X, y = make_moons(300, noise=0.22, random_state=1)
kernels = {
    "rbf": "rbf",
    "polynomial of degree 3": Polynomial(3),
    "Matérn + half a wide RBF": Matern(1.5, 1.0) + 0.5 * RBF(3.0),
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
    model = benthic.SVC(kernel=kernel, C=2.0).fit(X, y)
    model.plot(X, y, ax=ax)
    ax.set_title(f"{name}: {len(model.support_)} support vectors", fontsize="medium")
plt.show()

# %%
# How far from the optimum?
# -------------------------
# The dual is a lower bound of the primal, and both meet only at the optimum. Every fit keeps the two values, their gap,
# and the largest violation of the optimality conditions, one a pair of classes. Stopping early leaves a gap.

import warnings

from benthic.data import load

digits = load("digits")
X, y = np.asarray(digits.X, dtype=float), np.asarray(digits.y)
few = np.isin(y, [3, 8])

steps = [5, 10, 20, 40, 60, 80, 100, -1]
gaps = []
for limit in steps:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stopped early is the point
        model = benthic.SVC(max_iter=limit).fit(X[few], y[few])
    gaps.append(float(model.certificate_["relative_gap"][0]))
print(model.summary())

figure, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
ax.loglog(steps[:-1], gaps[:-1], "o-")
ax.set(xlabel="steps", ylabel="relative duality gap", title="telling 3 from 8")
plt.show()

# %%
# A tube instead of a street
# --------------------------
# For regression the machine ignores errors below ``epsilon``. Rows inside the tube have no say; the support vectors
# lie on its wall or outside.

x = np.sort(rng.uniform(-3, 3, 120))
noisy = np.sinc(x) + 0.12 * rng.normal(size=120)
regression = benthic.SVR(C=10.0, epsilon=0.15).fit(x[:, None], noisy)
picture = regression.plot()
picture.axes[0].scatter(x, noisy, s=8, color="0.6", zorder=0)
picture
