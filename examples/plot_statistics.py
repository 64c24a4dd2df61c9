"""
From a sample to a statement: tests, averages, bootstraps
=========================================================

A mean of a sample is a random number too. This page asks how far off it may be: by Student's test, by the law of
large numbers, by the central limit theorem, and by drawing the sample again from itself.
"""

# %%
# Does the drug lower blood pressure?
# -----------------------------------
# Twenty patients took a drug, twenty a placebo. Only means and standard deviations were reported, which is enough
# for a t-test. Welch's form lets the two variances differ.

import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy import stats

from benthic.data import load
from benthic.distributions import bootstrap, mean_interval, moments, monte_carlo
from benthic.distributions.statistics import t_test_from_summary

drug, placebo = (143.25, 4.37, 20), (149.55, 3.10, 20)
test = t_test_from_summary(drug, placebo)
print(test)
print()
print(t_test_from_summary(drug, placebo, equal_variance=True))

# %%
# Left, normal laws with the reported moments. Right, the law of t if the drug did nothing: the observed t lies far out
# in its tail, and the p-value is an area too small to see.

t = np.linspace(-7, 7, 500)
figure, both = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
pressure = np.linspace(130, 162, 300)
for (mean, deviation, _), name, color in ((drug, "drug", "C0"), (placebo, "placebo", "C1")):
    both[0].plot(pressure, stats.norm.pdf(pressure, mean, deviation), color=color, label=name)
    both[0].axvline(mean, color=color, linewidth=0.8, linestyle=":")
both[0].set(xlabel="blood pressure after treatment", ylabel="density")
both[0].legend(frameon=False)
both[1].plot(t, stats.t.pdf(t, test.df), color="0.4")
both[1].axvline(test.statistic, color="C3")
both[1].annotate(f"t = {test.statistic:.2f}\np = {test.p_value:.1e}", (test.statistic + 0.25, 0.25), color="C3")
both[1].set(xlabel="t", ylabel=f"Student's law, df = {test.df:.1f}")
plt.show()

# %%
# π by throwing darts
# -------------------
# The share of random points of the unit square that fall inside the quarter circle is π/4. By the law of large
# numbers the average settles; by the central limit theorem the error shrinks as one over the root of n.


def inside(x):
    return 4.0 * (x.square().sum(-1) < 1)


def square(n, generator):
    return torch.rand(n, 2, generator=generator, dtype=torch.float64)


print("plain      ", monte_carlo(inside, square, 100_000, seed=0))
print("antithetic ", monte_carlo(inside, square, 100_000, seed=0, antithetic=lambda x: 1 - x))
control = monte_carlo(inside, square, 100_000, seed=0, control=lambda x: x.square().sum(-1), control_mean=2 / 3)
print("controlled ", control)

n = torch.arange(1, 20_001)
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for seed in range(5):
    values = inside(square(20_000, torch.Generator().manual_seed(seed)))
    axes.plot(n, values.cumsum(0) / n, linewidth=0.8)
band = 2 * math.sqrt(math.pi * (4 - math.pi)) / n.sqrt()
axes.fill_between(n, math.pi - band, math.pi + band, color="0.9", zorder=0, label="two standard errors")
axes.axhline(math.pi, color="black", linewidth=0.8)
axes.set(xscale="log", ylim=(2.4, 3.9), xlabel="darts", ylabel="running estimate of π")
axes.legend(frameon=False)
plt.show()

# %%
# Means become normal
# -------------------
# Waiting times are far from normal, but means of n of them are less and less so. Skewness, which is 2 for the law
# itself, falls as one over the root of n.

figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
z = np.linspace(-4, 4, 200)
for size, color in ((1, "0.75"), (4, "C0"), (32, "C3")):
    draws = -torch.rand(100_000, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64).log()
    scaled = (draws.mean(1) - 1) * math.sqrt(size)
    print(f"n = {size:2}: skewness {float(moments(scaled).skewness()):.3f}, expected {2 / math.sqrt(size):.3f}")
    axes.hist(scaled.numpy(), bins=120, range=(-4, 4), density=True, histtype="step", color=color, label=f"n = {size}")
axes.plot(z, stats.norm.pdf(z), color="black", linewidth=0.8, label="normal law")
axes.set(xlabel="(mean − 1)√n", ylabel="density")
axes.legend(frameon=False)
plt.show()

# %%
# The bootstrap
# -------------
# For a mean there is a formula. For a correlation, a median or anything else, draw the rows again with replacement
# and look at how the statistic varies.

iris = np.asarray(load("iris").X, dtype=float)
print("petal length:", mean_interval(iris[:, 2]))


def correlation(rows):
    centered = rows - rows.mean(0)
    return (centered[:, 0] * centered[:, 1]).sum() / centered.square().sum(0).prod().sqrt()


sepals = iris[:50, :2]  # setosa: sepal length and width
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for height, method in enumerate(("percentile", "basic", "bca")):
    found = bootstrap(sepals, correlation, method=method, seed=0)
    print(f"{found}")
    axes.plot([found.low, found.high], [0.5 + 0.5 * height] * 2, marker="|", label=method)
axes.hist(found.distribution.numpy(), bins=80, density=True, color="0.85")
axes.axvline(float(found.value), color="black", linewidth=0.8)
axes.set(xlabel="correlation of sepal length and width, setosa", ylabel="density over resamples")
axes.legend(frameon=False)
plt.show()
