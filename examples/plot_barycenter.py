"""
The mean of shapes: Wasserstein barycenters
===========================================

The mean of pictures, pixel by pixel, is a pile of ghosts. A barycenter asks instead for the picture that is
nearest to all of them when nearness is the cost of moving ink; it has a shape of its own.
"""

# %%
# Rings
# -----
# Eight rings of different size, place and squash, on a grid of 40 by 40 pixels.

import matplotlib.pyplot as plt
import torch

from benthic.transport import barycenter, barycenter_1d, free_support_barycenter, gaussian_barycenter

size = 40
y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
stream = torch.Generator().manual_seed(1)


def ring() -> torch.Tensor:
    """Ink between two ellipses around a random center."""
    cx, cy, rx, ry = (
        torch.rand(4, generator=stream) * torch.tensor([0.6, 0.6, 0.35, 0.35]) + torch.tensor([-0.3, -0.3, 0.25, 0.25])
    ).tolist()
    radius = (((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2).sqrt()
    ink = torch.exp(-(((radius - 1) / 0.18) ** 2))
    return ink / ink.sum()


rings = torch.stack([ring() for _ in range(8)])
figure, panels = plt.subplots(1, 8, figsize=(9, 1.4), layout="constrained")
for axes, image in zip(panels, rings, strict=True):
    axes.imshow(image, cmap="Greys")
    axes.set_axis_off()
plt.show()

# %%
# Their mean, and their barycenter
# --------------------------------
# Entropy makes the barycenter quick to compute and a little blurred; the debiased version takes the blur out.

answers = {
    "Euclidean mean": rings.mean(0),
    "Wasserstein barycenter": barycenter(rings, epsilon=2e-3, max_iter=60).masses,
    "debiased": barycenter(rings, epsilon=2e-3, max_iter=60, debiased=True).masses,
}
figure, panels = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
for axes, (name, image) in zip(panels, answers.items(), strict=True):
    axes.imshow(image, cmap="Greys")
    axes.set(title=name, xticks=[], yticks=[])
plt.show()

# %%
# On the line: the mean of quantiles
# ----------------------------------
# Between two bumps the Euclidean mean has two bumps. The barycenter has one, half-way, and on the line it is
# simply the mean of the quantile functions.

samples = [torch.randn(4000, generator=stream) * 0.4 - 2, torch.randn(4000, generator=stream) * 0.8 + 3]
middle = barycenter_1d(samples).points
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for values, color in ((samples[0], "C0"), (samples[1], "C1"), (middle, "C3")):
    axes.hist(values.numpy(), bins=60, density=True, color=color, alpha=0.7)
axes.hist(torch.cat(samples).numpy(), bins=120, density=True, histtype="step", color="black", label="Euclidean mean")
axes.legend(frameon=False)
axes.set(yticks=[])
plt.show()

# %%
# Gaussians and point clouds
# --------------------------
# The barycenter of Gaussians is a Gaussian, found by a fixed point in a few steps. For clouds of points the points
# themselves move, to the mean of where the plans send them.

covariances = torch.tensor([[[3.0, 0.0], [0.0, 0.2]], [[0.2, 0.0], [0.0, 3.0]], [[1.2, 1.0], [1.0, 1.2]]])
means = torch.tensor([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
law = gaussian_barycenter(means, covariances)
clouds = [
    mean + torch.randn(150, 2, generator=stream) @ torch.linalg.cholesky(covariance).T
    for mean, covariance in zip(means, covariances, strict=True)
]
free = free_support_barycenter(clouds, 150, seed=0, max_iter=10)
figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
for cloud in clouds:
    axes.scatter(*cloud.T, s=8, color="0.7", linewidth=0)
axes.scatter(*free.points.T, s=10, color="C3", linewidth=0, label="barycenter of the clouds")
angle = torch.linspace(0, 2 * torch.pi, 200)
circle = torch.stack([angle.cos(), angle.sin()], 1)
for radius in (1, 2):
    axes.plot(*(law.mean + radius * circle @ torch.linalg.cholesky(law.covariance).T).T, color="black", linewidth=1)
axes.plot([], [], color="black", label="barycenter of the Gaussians")
axes.set_aspect("equal")
axes.legend(frameon=False)
plt.show()
