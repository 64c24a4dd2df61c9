"""
Sums of many variables: the central limit theorem and stable laws
=================================================================

Add up independent variables, shift and scale the sum, and its law settles. With a finite variance it becomes
normal. Without one it becomes another stable law, with tails that never go away.
"""

# %%
# A finite variance: the normal law
# ---------------------------------
# An exponential variable is as far from a bell as one likes. The density of the sum of n of them, centered and
# divided by the square root of n, is computed by convolution, without drawing a single number.

import matplotlib.pyplot as plt
import torch

from benthic.distributions import Exponential, Normal, Stable, convolve, draw, mle, tail_index

one = Exponential(torch.tensor(1.0, dtype=torch.float64))
sums = {1: one}
while max(sums) < 16:
    n = max(sums)
    sums[2 * n] = convolve(sums[n], sums[n])

z = torch.linspace(-3, 4, 400, dtype=torch.float64)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for n in (1, 2, 4, 16):
    x = n + n**0.5 * z
    density = torch.where(x >= 0, sums[n].log_prob(x.clamp(min=1e-9)).exp(), 0.0) * n**0.5
    axes.plot(z, density, label=f"n = {n}")
axes.plot(z, Normal(0.0, 1.0).log_prob(z).exp(), "k--", linewidth=1, label="normal")
axes.set(xlabel="centered sum over the square root of n", ylabel="density")
axes.legend(frameon=False)
plt.show()

# %%
# The family of limits
# --------------------
# Stable laws have four parameters. The first, alpha, says how heavy the tails are: 2 is normal, 1 (with no
# skewness) is Cauchy, 1/2 (with full skewness) is Lévy. The second, beta, is skewness.

x = torch.linspace(-5, 5, 501, dtype=torch.float64)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
for alpha in (2.0, 1.5, 1.0, 0.5):
    left.plot(x, Stable(alpha, 0.0, parametrization="S0").log_prob(x).exp(), label=f"alpha = {alpha:g}")
for beta in (0.0, 0.5, 1.0):
    right.plot(x, Stable(0.8, beta, parametrization="S0").log_prob(x).exp(), label=f"beta = {beta:g}")
left.set(title="no skewness", xlabel="x", ylabel="density", ylim=(0, 0.75))
right.set(title="alpha = 0.8", xlabel="x")
for axes in (left, right):
    axes.legend(frameon=False)
plt.show()

# %%
# No finite variance: the mean does not settle
# --------------------------------------------
# The running mean of normal variables closes in on zero. That of Cauchy variables keeps jumping: the mean of a
# thousand of them has exactly the law of one.

count = torch.arange(1, 5001)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, alpha in (("normal", 2.0), ("alpha = 1.5", 1.5), ("Cauchy", 1.0)):
    values = draw(Stable(alpha, 0.0), 5000, seed=4)
    axes.plot(count, values.cumsum(0) / count, label=name)
axes.set(xlabel="values so far", ylabel="running mean", xscale="log", ylim=(-6, 6))
axes.legend(frameon=False)
plt.show()

# %%
# Telling them apart
# ------------------
# On logarithmic axes the share of values beyond x is a straight line for a power law, whose slope is alpha, and
# falls off a cliff for the normal law. Hill's estimator measures the slope.

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
grid = torch.logspace(-1, 4, 200, dtype=torch.float64)
for color, (name, law) in enumerate((("normal", Stable(2.0)), ("alpha = 1.5", Stable(1.5)), ("Cauchy", Stable(1.0)))):
    values = draw(law, 5000, seed=0).abs().sort().values
    axes.plot(values, torch.arange(5000, 0, -1) / 5000, ".", markersize=3, color=f"C{color}", label=name)
    axes.plot(grid, 2 * law.survival(grid), color=f"C{color}", linewidth=1)
    found = tail_index(values, tail="right", k=250)
    print(f"{name:12} {'heavy' if found.heavy else 'light'} tail, Hill's estimate {found.alpha}")
axes.set(xscale="log", yscale="log", xlabel="x", ylabel="share of |values| beyond x", ylim=(1e-4, 1.5), xlim=(0.1, 1e4))
axes.legend(frameon=False)
plt.show()

# %%
# Fitting one
# -----------
# The density is exact everywhere, so maximum likelihood works as for any other law.

truth = Stable(1.6, 0.5, 2.0, 1.0)
values = draw(truth, 1000, seed=0)
fitted = mle(Stable, values)
print(fitted)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
x = torch.linspace(-12, 18, 400, dtype=torch.float64)
axes.hist(values.numpy(), bins=80, range=(-12, 18), density=True, color="0.85")
axes.plot(x, truth.log_prob(x).exp(), "k--", linewidth=1, label="truth")
axes.plot(x, fitted.log_prob(x).exp(), color="C3", label="fitted stable law")
normal = mle(Normal, values)
axes.plot(x, normal.log_prob(x).exp(), color="C0", label="fitted normal law")
axes.set(xlabel="x", ylabel="density")
axes.legend(frameon=False)
plt.show()
