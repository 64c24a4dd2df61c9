r"""
Two parallel lines: which distance notices that they come closer?
=================================================================

One law lives on the line x = 0, another on x = θ, and both are uniform along their line. The lines share no
point unless θ = 0, so a divergence that compares densities point by point says the same for every θ:

.. math:: \mathrm{KL} = \infty, \quad \mathrm{JS} = \log 2, \quad W = |\theta|

A distance that knows how far apart points are says how far there is to go. Arjovsky, Chintala & Bottou (2017)
used these lines to explain why a generator learns from a Wasserstein distance and not from the others.
"""

# %%
# The lines
# ---------

import math

import matplotlib.pyplot as plt
import torch
from torch.distributions import Normal

from benthic.distributions import frechet, hausdorff, hellinger, js, kl, total_variation
from benthic.distributions.information import Samples
from benthic.transport import wasserstein

height = torch.linspace(0, 1, 40, dtype=torch.float64)


def line(theta):
    """Points along the line x = θ."""
    return torch.stack((torch.full_like(height, theta), height), 1)


figure, axes = plt.subplots(figsize=(4, 2.6), layout="constrained")
for theta, color in ((0.0, "C0"), (0.6, "C3")):
    axes.scatter(*line(theta).T, s=8, color=color)
axes.annotate("", (0.6, 0.5), (0.0, 0.5), arrowprops={"arrowstyle": "<->"})
axes.text(0.3, 0.54, "θ", ha="center")
axes.set(xlim=(-0.4, 1.0), xlabel="x", ylabel="y")
plt.show()

# %%
# Each distance as θ varies
# -------------------------
# The law along the lines is the same, so point-by-point divergences depend only on which line a point is on:
# probabilities (1, 0) against (0, 1), or (1, 0) twice when the lines coincide.

thetas = torch.linspace(-1, 1, 41, dtype=torch.float64)
found = {"KL": [], "JS": [], "total variation": [], "Hellinger": [], "Wasserstein": [], "Fréchet": [], "Hausdorff": []}
for theta in thetas.tolist():
    here, there = [1.0, 0.0], ([1.0, 0.0] if abs(theta) < 1e-9 else [0.0, 1.0])
    found["KL"].append(kl(here, there))
    found["JS"].append(js(here, there))
    found["total variation"].append(total_variation(here, there))
    found["Hellinger"].append(hellinger(here, there))
    found["Wasserstein"].append(wasserstein(line(0.0), line(theta), p=1))
    found["Fréchet"].append(frechet(line(0.0), line(theta)))
    found["Hausdorff"].append(hausdorff(line(0.0), line(theta)))

print(f"{'θ':>18}" + "".join(f"{thetas[i]:8.2f}" for i in (0, 10, 18, 20)))
for name, values in found.items():
    print(f"{name:>18}" + "".join(f"{float(values[i]):8.3f}" for i in (0, 10, 18, 20)))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(thetas, [min(float(v), 1.35) for v in found["KL"]], "^", markersize=4, color="C3", label="KL (infinite)")
axes.plot(thetas, found["JS"], ".", color="C0", label="JS")
axes.axhline(math.log(2), color="C0", linewidth=0.5)
axes.text(-1.0, math.log(2) + 0.03, "log 2", color="C0")
axes.plot(thetas, found["total variation"], "x", markersize=4, color="C1", label="total variation, Hellinger")
axes.plot(thetas, found["Wasserstein"], color="C2", label="Wasserstein, Fréchet, Hausdorff")
axes.set(xlabel="θ", ylabel="distance", ylim=(-0.05, 1.45))
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# Noise gives the lines a width
# -----------------------------
# Blurred by normal noise of width σ, the laws overlap and the divergences fall towards 0, but only once the lines
# are a few widths apart; farther out the slope of JS is still flat. These curves are integrals over x, accurate to
# rounding; for KL the closed form is θ²/2σ².

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3), layout="constrained")
fine = torch.linspace(-1, 1, 81, dtype=torch.float64)
for sigma in (0.05, 0.15, 0.4):
    width = torch.tensor(sigma, dtype=torch.float64)
    still, moved = Normal(torch.zeros((), dtype=torch.float64), width), Normal(fine, width)
    axes[0].plot(fine, js(still, moved), label=f"σ = {sigma}")
    axes[1].plot(fine, kl(still, moved), label=f"σ = {sigma}")
axes[0].axhline(math.log(2), color="0.7", linewidth=0.8, zorder=0)
axes[0].set(xlabel="θ", ylabel="JS")
axes[1].set(xlabel="θ", ylabel="KL", ylim=(0, 10))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
plt.show()

# %%
# From samples alone
# ------------------
# Where only draws are known, distances to nearest neighbors stand in for densities, and every number comes with an
# error bar. The bar is of the spread, not of the bias: far out, where one law has hardly a draw left near the other,
# neighbors cannot know how small its density is, and KL comes out too low. JS and Hellinger, which are bounded, do
# not ask.

generator = torch.Generator().manual_seed(0)
sigma = torch.tensor(0.4, dtype=torch.float64)
still = Normal(torch.zeros((), dtype=torch.float64), sigma)
places = torch.linspace(0, 1, 9, dtype=torch.float64)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for function, name, color in ((kl, "KL", "C3"), (js, "JS", "C0"), (hellinger, "Hellinger", "C1")):
    exact = [float(function(still, Normal(theta, sigma))) for theta in places]
    estimates = []
    for theta in places:
        x, y = (0.4 * torch.randn(2, 1000, generator=generator, dtype=torch.float64)).unbind()
        estimates.append(function(Samples(x), Samples(y + theta), seed=0))
    values, errors = zip(*estimates, strict=True)
    axes.plot(places, exact, color=color, label=name)
    axes.errorbar(places, values, [2 * error for error in errors], fmt="o", markersize=3, color=color, capsize=2)
axes.set(xlabel="θ", ylabel="divergence", title="lines: exact; points: 1000 draws each, two standard errors")
axes.legend(frameon=False)
plt.show()
