"""
Moving mass: Wasserstein distance, Sinkhorn, displacement
=========================================================

Optimal transport compares two distributions by what it costs to move one onto the other. Unlike a divergence it
sees how *far apart* things are, and its plan shows the way.
"""

# %%
# Two parallel lines
# ------------------
# All mass on a vertical segment, against the same segment moved by theta. The supports are disjoint, so the
# Kullback-Leibler divergence is infinite and the Jensen-Shannon divergence is log 2 however near the lines are. The
# Wasserstein distance is the distance of the lines, with a slope that tells a generator where to go.

import math

import matplotlib.pyplot as plt
import torch

from benthic.transport import exact, plot_displacement, sinkhorn, sliced, wasserstein

height = torch.linspace(0, 1, 50)
theta = torch.linspace(-1, 1, 41)
line = torch.stack([torch.zeros(50), height], 1)
distance = [float(wasserstein(line, line + torch.tensor([shift, 0.0]), p=1)) for shift in theta.tolist()]

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(theta, distance, label="Wasserstein")
axes.plot(theta, [0 if abs(shift) < 1e-6 else math.log(2) for shift in theta.tolist()], ".", label="Jensen-Shannon")
axes.set(xlabel="theta", ylabel="distance")
axes.legend(frameon=False)
plt.show()

# %%
# Displacement interpolation
# --------------------------
# Half-way between a ring and two blobs there is a shape, not a half-transparent copy of both.

stream = torch.Generator().manual_seed(0)
angle = torch.rand(300, generator=stream) * 2 * torch.pi
ring = torch.stack([angle.cos(), angle.sin()], 1) + 0.06 * torch.randn(300, 2, generator=stream)
blobs = 0.18 * torch.randn(300, 2, generator=stream) + torch.tensor([3.0, 0.0])
blobs[:150] += torch.tensor([0.0, 0.9])
blobs[150:] -= torch.tensor([0.0, 0.9])
plot_displacement(ring, blobs, times=5)

# %%
# The same on the line, as histograms.

left, right = torch.randn(3000, 1, generator=stream), torch.randn(3000, 1, generator=stream).abs() * 1.5 + 6
plot_displacement(left[:800], right[:800], times=5)

# %%
# Entropy
# -------
# Sinkhorn's iterations solve the problem with a little entropy, fast and differentiably. A large epsilon spreads the
# plan out; as epsilon falls it sharpens to the exact one, and the cost with it.

X, Y = ring[:60][angle[:60].argsort()], blobs[120:180]
cost = torch.cdist(X, Y) ** 2
best = exact(None, None, cost)
figure, panels = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for axes, epsilon in zip(panels, (10.0, 1.0, 0.1, None), strict=True):
    found = best if epsilon is None else sinkhorn(None, None, cost, epsilon, max_iter=5000)
    price = found.value if epsilon is None else found.cost
    axes.imshow(found.plan, cmap="Blues", vmin=0, vmax=float(found.plan.max()))
    axes.set(title=f"{'exact' if epsilon is None else f'epsilon {epsilon:g}'}: {price:.2f}", xticks=[], yticks=[])
plt.show()

# %%
# In many dimensions
# ------------------
# Sliced distances sort along random directions; the standard error says how many are enough.

for directions in (10, 100, 1000):
    print(f"{directions:5} directions: {sliced(ring, blobs, directions=directions, seed=0)}")
