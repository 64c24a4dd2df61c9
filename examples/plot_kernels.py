"""
Kernels and the distance between two samples
============================================

A kernel says how alike two points are. It decides what functions a Gaussian process draws, and it turns the
question "do these two samples come from one law?" into a number with a p-value.
"""

# %%
# What a kernel believes in
# -------------------------
# Each row shows how alike x is to 1, and four functions drawn from the Gaussian process it defines. Kernels
# add and multiply: the last one is a periodic pattern that slowly changes its form, with noise.

import matplotlib.pyplot as plt
import torch

from benthic.kernels import RBF, Laplace, Linear, Matern, Periodic, White

x = torch.linspace(-3, 3, 300, dtype=torch.float64)[:, None]
one = torch.ones(1, 1, dtype=torch.float64)
noise = torch.randn(300, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
kernels = {
    "RBF": RBF(0.7),
    "Matérn 3/2": Matern(1.5, 0.7),
    "Laplace": Laplace(0.7),
    "linear": Linear(1.5),
    "periodic": Periodic(0.8, period=1.5),
    "periodic × RBF + noise": Periodic(0.8, period=1.5) * RBF(2.0) + White(0.005),
}
figure, panels = plt.subplots(len(kernels), 2, figsize=(8, 9), layout="constrained", sharex=True, width_ratios=[1, 2])
for (left, right), (name, kernel) in zip(panels, kernels.items(), strict=True):
    left.plot(x, kernel(x, one), color="C0")
    left.set(ylabel=name)
    factor = torch.linalg.cholesky(kernel(x) + 1e-8 * torch.eye(300))
    right.plot(x, factor @ noise, lw=0.9)
panels[0, 0].set(title="k(x, 1)")
panels[0, 1].set(title="draws")
plt.show()

# %%
# Two samples, one law?
# ---------------------
# Both samples have mean 0 and nearly the same covariance; one is a Gaussian, the other a ring. Means and covariances
# hardly see that. The maximum mean discrepancy does: shuffling the labels shows what it would be by chance.
# The length scale matters. The default, the median distance, is about the size of the ring and sees little of its hole;
# a third of it sees it clearly.

from benthic.kernels import median_distance, mmd, mmd_test

source = torch.Generator().manual_seed(0)


def ring(n):
    angle = 2 * torch.pi * torch.rand(n, generator=source)
    return torch.stack([angle.cos(), angle.sin()], 1) * 2**0.5 + 0.15 * torch.randn(n, 2, generator=source)


a, b = torch.randn(200, 2, generator=source), ring(200)
c = torch.randn(200, 2, generator=source)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.scatter(*a.T, s=8, label="Gaussian")
left.scatter(*b.T, s=8, label="ring")
left.set(aspect="equal")
left.legend(frameon=False)
middle = median_distance(torch.cat([a, b]))
print(f"with the median distance {middle:.2f}: p = {mmd_test(a, b, permutations=1000, seed=0).p_value:.3f}")
sharp = RBF(middle / 3)
for other, name, color in ((b, "ring", "C1"), (c, "another Gaussian", "C2")):
    result = mmd_test(a, other, sharp, permutations=1000, seed=0)
    print(f"Gaussian and {name}: MMD² {mmd(a, other, sharp)}, p = {result.p_value:.3f}")
    right.axvline(result.statistic, color=color, label=f"{name}, p = {result.p_value:.3f}")
    if other is b:
        right.hist(result.null, bins=40, color="0.8", label="shuffled labels")
right.set(xlabel="squared discrepancy", yticks=[])
right.legend(frameon=False)
plt.show()

# %%
# Following the gradient
# ----------------------
# The discrepancy is differentiable, so points can walk downhill until they look like the other sample. Tiles keep
# the memory small, forward and backward, however many points there are.

from benthic.kernels import mmd_squared

target = ring(300)
cloud = (0.3 * torch.randn(300, 2, generator=source)).requires_grad_()
kernel = RBF(0.4) + RBF(1.5)
optimizer = torch.optim.Adam([cloud], lr=0.05)
figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained", sharex=True, sharey=True)
shown = iter(panels)
for step in range(151):
    loss = mmd_squared(cloud, target, kernel, unbiased=False)
    if step in (0, 10, 40, 150):
        axes = next(shown)
        axes.scatter(*target.T, s=4, color="0.75")
        axes.scatter(*cloud.detach().T, s=4, color="C3")
        axes.set(title=f"step {step}: {loss.item():.4f}", aspect="equal", xlim=(-2.2, 2.2), ylim=(-2.2, 2.2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
plt.show()
