"""
Direct sampling: inversion, rejection, importance
=================================================

Three ways to independent draws when a law is known only by a formula: turn its distribution function around, throw
away proposals under an envelope, or keep all proposals and weigh them.
"""

# %%
# Turning a distribution function around
# --------------------------------------
# A uniform number, sent through the inverse of any distribution function, has that law. The function below has no
# inverse in closed form, a jump and a gap; the bracket is found and closed for all levels at once.

import warnings

import matplotlib.pyplot as plt
import torch
from torch.distributions import Independent, Normal, StudentT

from benthic.samplers import (
    adaptive_rejection,
    importance_sampling,
    inverse_transform,
    invert_cdf,
    rejection_sampling,
)


def cdf(x):
    smooth = 0.5 * torch.special.ndtr(2 * (x + 2)) + 0.3 * torch.special.ndtr(3 * (x - 2))
    return smooth + 0.2 * (x >= 1).to(x.dtype)


x = torch.linspace(-5, 5, 2001, dtype=torch.float64)
levels = torch.tensor([0.1, 0.3, 0.55, 0.65, 0.9], dtype=torch.float64)
points = invert_cdf(cdf, levels)
draws = inverse_transform(cdf, 20_000, seed=0)

figure, both = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
both[0].plot(x, cdf(x), color="0.3")
for level, point in zip(levels.tolist(), points.tolist(), strict=True):
    both[0].plot([-5, point, point], [level, level, 0], color="C0", linewidth=0.9)
both[0].set(xlim=(-5, 5), ylim=(0, 1.02), xlabel="x", ylabel="F(x)", title="five levels and their quantiles")
both[1].hist(draws.numpy(), bins=120, density=True, color="C0")
both[1].set(xlabel="x", title="20 000 draws; the jump is a bar")
plt.show()

# %%
# Rejection: pay with proposals
# -----------------------------
# The density needs no constant. Proposals are kept with probability p'/(k q), so the share that is kept is the
# integral of p' divided by k, and the integral comes as a gift.


def bumps(x):
    return torch.log(torch.exp(-0.5 * x**2) * (1.2 + torch.sin(3 * x)))


wide = Normal(torch.tensor(0.0, dtype=torch.float64), 1.5)
got = rejection_sampling(bumps, wide, 20_000, seed=0)
print(got)
print(f"integral by the trapezoid rule: {float(torch.trapezoid(bumps(x).exp(), x)):.4f}")

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.fill_between(x, (got.log_k + wide.log_prob(x)).exp(), color="0.9", label="k q(x), rejected")
bins = torch.linspace(-4.5, 4.5, 101)
heights = torch.histogram(got.draws.float(), bins).hist / len(got.draws) / 0.09 * got.normalizer.value
axes.stairs(heights, bins, fill=True, color="C0", alpha=0.5)
axes.plot(x, bumps(x).exp(), color="C0", label="p'(x), accepted")
axes.set(xlim=(-4.5, 4.5), xlabel="x")
axes.legend(frameon=False)
plt.show()

# %%
# An envelope that learns
# -----------------------
# A log-concave density lies under each of its tangents. Every rejected proposal becomes a new tangent, so hardly any
# are rejected later. A thousand densities are served at once, each with its own envelope.


def log_density(x):  # a skewed law: a Gumbel times a normal
    return x - x.exp() - 0.1 * x**2


few = adaptive_rejection(log_density, 1, max_tangents=5, start=[-3.0, 1.0, 2.0], seed=1)
many = adaptive_rejection(log_density, 20_000, seed=0)
print(many)

figure, both = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharex=True)
for axes, result in zip(both, (few, many), strict=True):
    axes.plot(x, log_density(x).exp(), color="C0", label="density")
    axes.plot(x, result.envelope(x[None])[0].exp(), color="C3", linewidth=1, label="envelope")
    axes.set(xlim=(-5, 2.5), ylim=(0, 0.7), xlabel="x", title=f"{result.envelope.x.shape[-1]} tangents")
both[0].legend(frameon=False)
plt.show()

# %%
# Importance: keep everything, weigh it
# -------------------------------------
# Weights p'/q turn draws of one law into averages over another. Whether that works is seen from the tail of the
# weights: its Pareto shape k should stay below about 0.7. A proposal that is too narrow looks fine by most of its
# weights and is caught by k.

target = Independent(Normal(torch.zeros(2, dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)), 1)
proposals = {
    "heavy tails": Independent(StudentT(4.0, torch.zeros(2, dtype=torch.float64), 1.6), 1),
    "a little narrow": Independent(Normal(torch.zeros(2, dtype=torch.float64), 1.2), 1),
    "too narrow": Independent(Normal(torch.zeros(2, dtype=torch.float64), 0.7), 1),
}

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, proposal in proposals.items():
    with warnings.catch_warnings(action="ignore"):  # it warns of the last two
        weighted = importance_sampling(target.log_prob, proposal, 10_000, seed=0)
    square = weighted.expect(lambda x: x[:, 1] ** 2)
    print(f"{name:16} k {weighted.pareto_k:5.2f}   ESS {weighted.ess:6.0f}   E x² = {square}  (truth 4)")
    largest = weighted.weights.sort(descending=True).values
    axes.loglog(torch.arange(1, 10_001), largest, label=f"{name}, k = {weighted.pareto_k:.2f}")
axes.set(xlabel="rank", ylabel="weight (they sum to one)", ylim=(1e-8, 1))
axes.legend(frameon=False)
plt.show()
