"""
Langevin dynamics: drift, noise, and what a step costs
======================================================

A walker that goes uphill on a log density and is shaken just enough ends up distributed by that density. How the step
is taken decides how exact the law is.
"""

# %%
# The price of a step
# -------------------
# On a standard normal the unadjusted walk (ULA) settles on variance :math:`1 / (1 - \eta / 2)` instead of 1. The
# underdamped walk in the order kick, drift, friction, drift, kick (BAOAB) has the right variance of positions at every
# stable step. MALA rejects some steps and is exact. Thousands of chains run at once, so the dots are nearly the truth.

import matplotlib.pyplot as plt
import numpy as np
import torch

from benthic.samplers import (
    BAOAB,
    MALA,
    SGHMC,
    SGLD,
    ULA,
    MinibatchPosterior,
    Target,
    annealed_langevin,
    noise_levels,
    run_minibatches,
)

normal = Target(lambda x: -0.5 * (x**2).sum(), torch.zeros(1))
steps = np.array([0.1, 0.3, 0.6, 0.9, 1.2, 1.5])
chains, stream = 20_000, torch.Generator().manual_seed(0)


def variance(kernel):
    """The variance of many chains after a while."""
    state = kernel.init(torch.randn(chains, 1, generator=stream))
    for _ in range(80):
        state, _ = kernel.step(state, stream)
    return float(state.position.var())


figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
fine = np.linspace(0.05, 1.6, 100)
axes.plot(fine, 1 / (1 - fine / 2), color="0.7", label="1 / (1 - step / 2)")
axes.plot(steps, [variance(ULA(normal, float(h))) for h in steps], "o", label="ULA")
axes.plot(steps, [variance(BAOAB(normal, float(h))) for h in steps], "s", label="BAOAB")
axes.plot(steps, [variance(MALA(normal, float(h))) for h in steps], "^", label="MALA")
axes.axhline(1, color="0.8", linewidth=0.8, zorder=0)
axes.set(xlabel="step size", ylabel="variance (the truth is 1)")
axes.legend(frameon=False)
plt.show()

# %%
# Minibatches
# -----------
# The mean of 500 numbers has a posterior that is known. Stochastic-gradient walks look at 50 numbers a step. The
# smaller the step, the nearer they come; momentum (SGHMC) mixes faster at the same cost.

data = torch.randn(500, 1, generator=torch.Generator().manual_seed(1)) + 1
posterior = MinibatchPosterior(
    lambda mean, batch: -0.5 * (batch.X[:, 0] - mean[:, None]) ** 2,
    lambda mean: -0.5 * mean**2,
    torch.tensor(0.0),
    batched=True,
)
truth, deviation = float(data.sum()) / 501, 501**-0.5
grid = np.linspace(truth - 5 * deviation, truth + 5 * deviation, 300)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.fill_between(grid, np.exp(-0.5 * ((grid - truth) / deviation) ** 2), color="0.88", label="exact posterior")
start = torch.full((50, 1), truth)
rules = {"SGLD, large steps": SGLD(1.2e-3), "SGLD, small steps": SGLD(1e-4), "SGHMC": SGHMC(1e-4, friction=0.3)}
for name, rule in rules.items():
    draws = run_minibatches(
        rule, posterior, data, chains=50, draws=1000, warmup=300, batch_size=50, start=start, seed=0
    )
    heights, edges = np.histogram(draws.values["x"].flatten().numpy(), bins=60, range=(grid[0], grid[-1]), density=True)
    axes.step(edges[:-1], heights * deviation * np.sqrt(2 * np.pi), where="post", label=name)
axes.set(xlabel="mean", yticks=[])
axes.legend(frameon=False)
plt.show()

# %%
# Far modes
# ---------
# Plain Langevin stays in the mode it starts in. Annealed Langevin first samples the density blurred by much noise,
# where the modes touch, and takes the noise away level by level. Here the score of a ring of six blobs is known.

angles = torch.arange(6) * torch.pi / 3
centers = 4 * torch.stack([angles.cos(), angles.sin()], 1)


def score(x, sigma):
    """Gradient of the log density of the blobs with noise ``sigma``."""
    away = centers - x[:, None]
    spread = 0.15**2 + sigma**2
    share = torch.softmax(-0.5 * away.square().sum(-1) / spread, 1)
    return (share[..., None] * away).sum(1) / spread


levels = noise_levels(6.0, 0.05, 24)
path = annealed_langevin(score, levels, (1500, 2), steps=25, step_size=0.2, keep=True, seed=0)
figure, row = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained", sharex=True, sharey=True)
for axes, level in zip(row, (0, 8, 14, 23), strict=True):
    axes.scatter(*path[level].T, s=2, alpha=0.5, linewidth=0)
    axes.set(title=f"noise {float(levels[level]):.2f}", xlim=(-9, 9), ylim=(-9, 9), aspect="equal")
plt.show()
