"""
Linear regression: errors, penalties and the path of the lasso
==============================================================

Least squares says how much a target changes with each feature, and how sure that is. A penalty trades a little
of the fit for coefficients that are shorter (ridge) or fewer (lasso). This example looks at all three on the
progress of diabetes after a year.
"""

# %%
# Least squares, with standard errors
# -----------------------------------
# The bars are coefficients, the whiskers two standard errors. Some features matter without doubt; others could
# be nothing, and the blood values ``s1`` to ``s5`` are so alike that their shares can hardly be told apart.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import benthic
from benthic.linear import lasso_path

frame, y = load_diabetes(return_X_y=True, as_frame=True)
model = benthic.LinearRegression().fit(frame, y)
print(model.summary())
picture = model.plot()
picture

# %%
# Intervals for new patients
# --------------------------
# ``predict_interval`` is the classical t interval: it holds the noise and the uncertainty of the coefficients.
# About nine in ten of the held-out patients should fall inside.

X, target = frame.to_numpy(), y.to_numpy()
held = np.arange(len(X)) % 3 == 0
model = benthic.LinearRegression().fit(X[~held], target[~held])
low, high = model.predict_interval(X[held], 0.9).T
inside = (low < target[held]) & (target[held] < high)
print(f"{inside.mean():.3f} of {held.sum()} held-out patients lie in their 90 % interval")

order = np.argsort(model.predict(X[held]))
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.fill_between(np.arange(held.sum()), low[order], high[order], color="#3b6fb5", alpha=0.2, label="90 % interval")
axes.plot(model.predict(X[held])[order], color="#3b6fb5", label="prediction")
axes.plot(target[held][order], ".", color="#c8553d", markersize=4, label="truth")
axes.set(xlabel="held-out patients, by prediction", ylabel="progress of the disease")
axes.legend(frameon=False, loc="upper left")
plt.show()

# %%
# The path of the lasso
# ---------------------
# From left to right the penalty weakens, and features enter one by one. Every solution comes with its duality
# gap, so none is taken on trust. Each begins where the last one ended: the hundred cost little more than one.

path = lasso_path(X, target, tol=1e-8)
print(f"largest duality gap: {path.gaps.max():.1e} on a mean square of {target.var():.0f}")
picture = path.plot(list(frame.columns))
picture

# %%
# Choosing the penalty
# --------------------
# The best strength is found on rows that were not learned from. Too strong a penalty misses what is there; on
# powers and products of the features, too weak a one learns noise.

powers = benthic.PolynomialFeatures(2, include_bias=False).fit(X)
wide = powers.transform(X)
wide = (wide - wide.mean(0)) / wide.std(0)
paths = {"10 features": X / X.std(0), f"{wide.shape[1]} powers and products": wide}

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, rows in paths.items():
    path = lasso_path(rows[~held], target[~held])
    error = ((rows[held] @ path.coefs + path.intercepts - target[held][:, None]) ** 2).mean(0)
    best = int(error.argmin())
    axes.semilogx(path.alphas, error, label=name)
    axes.plot(path.alphas[best], error[best], "o", color="0.2", markersize=5)
    print(f"{name}: {int((path.coefs[:, best] != 0).sum())} used at the best alpha, {path.alphas[best]:.2f}")
axes.invert_xaxis()
axes.set(xlabel="alpha (weaker penalty to the right)", ylabel="mean square error, held out", ylim=(2500, 6500))
axes.legend(frameon=False)
plt.show()
