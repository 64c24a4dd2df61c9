"""
Compressing an image by its singular values
===========================================

A picture is a matrix. Its singular value decomposition writes it as a sum of rank-one pictures, strongest first;
keeping k of them is the best that any picture of rank k can do (Eckart and Young, 1936), and takes
(1 + h + w) k numbers in place of h w.
"""

# %%
# A photograph at growing rank
# ----------------------------
# The image is 450 pixels wide and 333 high. At rank 50 it takes 39,200 numbers, 26 % of the original.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_sample_image

from benthic.linalg import compress, randomized_svd, truncated_svd

photo = torch.tensor(load_sample_image("china.jpg")[:, :608]).permute(2, 0, 1).double() / 255
photo = torch.nn.functional.interpolate(photo[None], size=(333, 450), mode="bilinear", antialias=True)[0]
gray = photo.mean(0)  # (333, 450)

figure, panels = plt.subplots(2, 3, figsize=(8, 4.4), layout="constrained")
for axes, k in zip(panels.flat, (1, 5, 20, 50, 100, None), strict=True):
    if k is None:
        axes.imshow(gray, cmap="gray", vmin=0, vmax=1)
        axes.set_title("original, 149,850 numbers", fontsize=9)
    else:
        small = compress(gray, k)
        print(small)
        axes.imshow(small.reconstruct(), cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"rank {k}: {small.stored:,} ({small.ratio:.0%})", fontsize=9)
    axes.set_axis_off()
plt.show()

# %%
# Why it works
# ------------
# Singular values of photographs fall quickly. What a rank leaves out is exactly the tail of their squares. Noise has
# no such structure: its values hardly fall, and no rank below the full one does well.

noise = torch.rand(gray.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for name, image in (("photograph", gray), ("noise", noise)):
    values = torch.linalg.svdvals(image)
    tail = values.square().flip(0).cumsum(0).flip(0)
    left.semilogy(values, label=name)
    right.semilogy((tail[1:] / tail[0]).sqrt(), label=name)
left.set(xlabel="index", ylabel="singular value")
right.set(xlabel="rank", ylabel="relative error", ylim=(1e-3, 1))
right.axvline(gray.numel() / (1 + sum(gray.shape)), color="0.7", linestyle=":", label="nothing saved beyond")
right.legend(frameon=False)
plt.show()

# %%
# Color, and the rank that an error needs
# ---------------------------------------
# Channels are compressed one by one. Instead of a rank one may ask for a relative error.

figure, panels = plt.subplots(1, 3, figsize=(8, 2.3), layout="constrained")
for axes, error in zip(panels, (0.2, 0.1, 0.05), strict=True):
    small = compress(photo, error=error)
    axes.imshow(small.reconstruct().clamp(0, 1).permute(1, 2, 0))
    axes.set_title(f"error {error:.0%}: rank {small.k}, {small.ratio:.0%}", fontsize=9)
    axes.set_axis_off()
plt.show()

# %%
# Nearly the same from a random sketch
# ------------------------------------
# A few products with random vectors find the range of the picture without decomposing it. Power iterations sharpen
# the sketch where singular values fall slowly (Halko, Martinsson and Tropp, 2011).

ranks = np.arange(5, 105, 20)
figure, axes = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
exact = truncated_svd(gray, min(gray.shape))
best = [torch.linalg.matrix_norm(gray - exact.truncated(k).dense()) for k in ranks]
for power in (0, 1, 2):
    found = [
        torch.linalg.matrix_norm(gray - randomized_svd(gray, k, power_iterations=power, seed=0).dense()) for k in ranks
    ]
    axes.plot(ranks, np.array(found) / np.array(best), marker="o", markersize=3, label=f"{power} power iterations")
axes.axhline(1, color="0.7", linestyle=":")
axes.set(xlabel="rank", ylabel="error over the best possible")
axes.legend(frameon=False)
plt.show()
