"""
Smoothing with kernels
======================

The Nadaraya-Watson estimate at a point is the mean of all targets, weighted by how near their examples are. One number
decides everything: the bandwidth. It can be learned by leaving each example out in turn.
"""

# sphinx_gallery_thumbnail_number = 1

# %%
# Too narrow, too wide, learned
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 220))
truth = np.sin(x) + 0.4 * np.sin(3 * x)
y = truth + 0.35 * rng.normal(size=x.size)
line = np.linspace(-1, 11, 600)

figure, axes = plt.subplots(1, 3, figsize=(10.5, 3), layout="constrained", sharey=True)
for axis, bandwidth in zip(axes, (0.03, 1.5, "loo"), strict=True):
    model = benthic.NadarayaWatson(bandwidth=bandwidth).fit(x[:, None], y)
    axis.scatter(x, y, s=7, color="0.7")
    axis.plot(x, truth, color="0.2", linewidth=1, linestyle="--")
    axis.plot(line, model.predict(line[:, None]), color="C3")
    axis.set_title(f"bandwidth {model.bandwidth_[0]:.3g}" + " (learned)" * (bandwidth == "loo"), fontsize="medium")
plt.show()

# %%
# The valley of the leave-one-out error
# -------------------------------------
# Predicting each example from the others needs no second fit: its own weight is taken out of both sums.

import torch

from benthic.neighbors.smoothing import held, loo_error

data = held(torch.tensor(x)[:, None], torch.tensor(y)[:, None], torch.ones(len(x), dtype=torch.float64), 1000)
widths = np.geomspace(0.02, 5, 60)
figure, axis = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
for kernel in ("gaussian", "epanechnikov", "tricube", "box"):
    errors = [float(loo_error(kernel, data, torch.tensor([h], dtype=torch.float64))) for h in widths]
    axis.loglog(widths, errors, linewidth=1.2, label=kernel)
axis.set(xlabel="bandwidth", ylabel="leave-one-out error / variance")
axis.legend(frameon=False, fontsize="small")
plt.show()

# %%
# How sure is it?
# ---------------
# The spread of the targets around the estimate, weighted in the same way, gives an interval. It follows noise that
# changes from place to place.

noisy = truth + (0.1 + 0.08 * x) * rng.normal(size=x.size)
model = benthic.NadarayaWatson("epanechnikov", bandwidth=0.8).fit(x[:, None], noisy)
model.plot(level=0.9)

# %%
# Columns that do not matter
# --------------------------
# With ``bandwidth="loo-each"`` every column gets its own bandwidth, by gradients of the same error. A column without
# influence gets a wide one, which switches it off.

X = rng.uniform(-2, 2, size=(300, 3))
target = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300)
for how in ("loo", "loo-each"):
    model = benthic.NadarayaWatson(bandwidth=how).fit(X, target)
    print(f"{how:9} bandwidths {np.round(model.bandwidth_, 2)}, leave-one-out error {model.loo_error_:.3f}")
