"""
Sampling a posterior with NUTS
==============================

A posterior is any torch function of its parameters. Constraints are reached through bijections, gradients come
for free, and all chains move together.
"""

# %%
# Eight schools
# -------------
# The effect of coaching in eight schools, each with its own standard error (Rubin, 1981). Effects come from a
# common law whose mean and spread are unknown; writing them as mean plus spread times noise keeps the posterior
# easy to walk on.

import matplotlib.pyplot as plt
import torch
from torch.distributions import HalfCauchy, Normal, constraints

from benthic.samplers import NUTS, Target, run

effect = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_density(p):
    schools = p["mean"] + p["spread"] * p["noise"]
    prior = Normal(0, 5).log_prob(p["mean"]) + HalfCauchy(5.0).log_prob(p["spread"])
    return prior + Normal(0, 1).log_prob(p["noise"]).sum() + Normal(schools, error).log_prob(effect).sum()


target = Target(
    log_density,
    {"mean": torch.tensor(0.0), "spread": torch.tensor(1.0), "noise": torch.zeros(8)},
    constraints={"spread": constraints.positive},
)
draws = run(NUTS(target, accept=0.9), chains=16, draws=200, warmup=120, seed=0)
print(draws.summary(names=["mean", "spread"]))

# %%
# The schools are drawn together: the smaller the spread, the more.

schools = draws["mean"][..., None] + draws["spread"][..., None] * draws["noise"]
low, middle, high = schools.flatten(0, 1).quantile(torch.tensor([0.05, 0.5, 0.95]), dim=0)
places = torch.arange(8)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.errorbar(places - 0.1, effect, 1.64 * error, fmt="o", color="gray", label="each school alone")
left.errorbar(places + 0.1, middle, torch.stack([middle - low, high - middle]), fmt="o", label="together")
left.set(xlabel="school", ylabel="effect")
left.legend(frameon=False)
right.scatter(draws.flat("spread").log(), schools.flatten(0, 1)[:, 0], s=2, alpha=0.3)
right.set(xlabel="log spread", ylabel="effect in the first school")
plt.show()

# %%
# A trajectory that knows when to turn
# ------------------------------------
# A trajectory doubles until it turns back, so its number of leapfrog steps is mostly 3, 7 or 15, and nobody had
# to choose it. Color is the number of steps that led to a draw.

bent = Target(lambda p: -0.5 * p[0] ** 2 - (p[1] - 0.5 * p[0] ** 2) ** 2, torch.zeros(2))
found = run(NUTS(bent, accept=0.9), chains=128, draws=20, warmup=60, seed=0)
points, steps = found["x"].flatten(0, 1), found.info["steps"].flatten()
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
dots = axes.scatter(*points.T, c=steps, s=6, cmap="viridis", vmax=15)
figure.colorbar(dots, label="leapfrog steps")
axes.set(xlabel="x", ylabel="y")
plt.show()

# %%
# Many short chains
# -----------------
# With many chains, tuning pools what all of them saw, so warm-up is short. ChEES finds one length of trajectory
# for all.

many = run("chees", target, chains=256, draws=300, warmup=80, seed=0)
print(many.summary(names=["mean", "spread"]))
