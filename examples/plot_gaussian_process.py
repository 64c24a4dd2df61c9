"""
Gaussian processes: curves with honest error bars
=================================================

A Gaussian process is a normal law over functions. A kernel says which functions are plausible; data say which of those
are left. This example looks at functions before and after data, at how the evidence chooses a kernel, and at inducing
points for many rows.
"""

# %%
# Before and after data
# ---------------------
# ``sample_y`` draws functions: from the prior before ``fit``, from the posterior after it. Far from the data the
# posterior goes back to the prior.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.kernels import RBF, Matern, Periodic, White

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 8, 12))[:, None]
y = np.sin(x[:, 0]) + 0.3 * x[:, 0]
grid = np.linspace(-1, 10, 300)[:, None]

model = benthic.GaussianProcessRegressor(2.0 * RBF(1.5), alpha=1e-6)
prior = model.sample_y(grid, 5, random_state=0)
model.fit(x, y)
posterior = model.sample_y(grid, 5, random_state=0)
ends = model.predict_interval(grid, level=0.9)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
axes[0].plot(grid, prior, linewidth=1)
axes[0].set(title="five functions of the prior", xlabel="x", ylabel="f(x)")
axes[1].fill_between(grid[:, 0], *ends.T, color="#3b71b5", alpha=0.2, linewidth=0)
axes[1].plot(grid, posterior, linewidth=1)
axes[1].plot(x, y, "o", color="0.2", markersize=4)
axes[1].set(title="after twelve points", xlabel="x")
plt.show()

# %%
# The evidence chooses
# --------------------
# Hyper-parameters maximize the marginal likelihood, which also compares kernels: a seasonal kernel with a slow trend
# explains these data far better than a plain one, and goes on rightly beyond them.

t = np.linspace(0, 6, 120)[:, None]
signal = np.sin(2 * np.pi * t[:, 0]) + 0.3 * np.sin(4 * np.pi * t[:, 0]) + 0.15 * t[:, 0] ** 1.5
noisy = signal + 0.15 * rng.normal(size=len(t))
ahead = np.linspace(0, 8, 400)[:, None]

kernels = {
    "plain": 1.0 * RBF(0.3) + White(0.1),
    "seasonal": 1.0 * Periodic(1.0, period=1.0) * RBF(10.0) + 1.0 * RBF(5.0) + White(0.1),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for axis, (name, kernel) in zip(axes, kernels.items(), strict=True):
    fitted = benthic.GaussianProcessRegressor(kernel, normalize_y=True).fit(t, noisy)
    mean, std = fitted.predict(ahead, return_std=True)
    axis.fill_between(ahead[:, 0], mean - 1.645 * std, mean + 1.645 * std, color="#3b71b5", alpha=0.2, linewidth=0)
    axis.plot(ahead, mean, color="#3b71b5")
    axis.plot(t, noisy, ".", color="0.2", markersize=3)
    axis.set(title=f"{name}: log evidence {fitted.log_marginal_likelihood_value_:.0f}", xlabel="t")
plt.show()
print(fitted.summary())

# %%
# Left-out rows
# -------------
# What each row would be predicted to be from all the others has a closed form. If the model is right, the errors in
# units of their standard deviations are standard normal.

left = fitted.leave_one_out()
scores = (noisy - left.mean) / left.std
print(
    f"mean {scores.mean():+.2f}, standard deviation {scores.std():.2f}, mean log density {left.log_density.mean():.2f}"
)

# %%
# Inducing points
# ---------------
# With many rows a few inducing points carry what matters. The collapsed bound says how much is lost.

many = rng.uniform(0, 10, size=(1200, 1))
targets = np.sin(2 * many[:, 0]) * np.exp(-0.1 * many[:, 0]) + 0.2 * rng.normal(size=1200)
smooth = 1.0 * Matern(2.5, 1.0) + White(0.1)
counts, bounds = [8, 12, 20, 30], []
for count in counts:
    sparse = benthic.GaussianProcessRegressor(smooth, inducing=count, method="sgpr").fit(many, targets)
    bounds.append(sparse.log_marginal_likelihood_value_)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].plot(counts, bounds, "o-")
axes[0].set(xlabel="inducing points", ylabel="bound on the log evidence")
line = np.linspace(0, 10, 300)[:, None]
ends = sparse.predict_interval(line)
axes[1].plot(many, targets, ".", color="0.7", markersize=1.5)
axes[1].fill_between(line[:, 0], *ends.T, color="#3b71b5", alpha=0.25, linewidth=0)
axes[1].plot(line, sparse.predict(line), color="#3b71b5")
axes[1].plot(sparse.inducing_points_[:, 0], np.full(count, -1.6), "|", color="#b53b3b", markersize=9)
axes[1].set(xlabel="x", title=f"{count} inducing points (red) for 1200 rows")
plt.show()
