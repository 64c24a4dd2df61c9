"""
Gaussian random fields
======================

A Gaussian process on the plane is a random field: terrain, clouds, the texture of a material. On a grid, stationary
kernels are sampled exactly by one fast Fourier transform, however many points there are.
"""

# %%
# Kernels as textures
# -------------------
# The smoothness of the kernel is the smoothness of the surface; a length scale for each axis stretches it.

import matplotlib.pyplot as plt
import numpy as np
import torch

from benthic.gp import random_field
from benthic.kernels import RBF, Laplace, Matern

kernels = {
    "Matern(0.5, 20)": Matern(0.5, 20.0),
    "Matern(1.5, 20)": Matern(1.5, 20.0),
    "RBF(20)": RBF(20.0),
    "Laplace(20)": Laplace(20.0),
    "RBF([4, 30])": RBF(torch.tensor([4.0, 30.0])),
    "two scales": 1.0 * RBF(40.0) + 0.15 * Matern(1.5, 4.0),
}
figure, axes = plt.subplots(2, 3, figsize=(9, 6.2), layout="constrained")
for axis, (name, kernel) in zip(axes.ravel(), kernels.items(), strict=True):
    axis.imshow(random_field(kernel, (200, 200), seed=1)[0], cmap="terrain", vmin=-2.8, vmax=2.8)
    axis.set(title=name, xticks=[], yticks=[])
plt.show()

# %%
# The covariance is the one asked for
# -----------------------------------
# Averages over many fields follow the kernel at every distance, within their error.

kernel = Matern(1.5, 6.0)
fields = random_field(kernel, (48, 48), 2000, seed=0)
distance = np.arange(48.0)
products = np.array([(fields[:, 0, 0] * fields[:, 0, j]).numpy() for j in range(48)])
measured, error = products.mean(1), products.std(1) / np.sqrt(2000)
exact = kernel(torch.zeros(1, 1, dtype=torch.float64), torch.from_numpy(distance)[:, None])[0]

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.errorbar(distance, measured, 2 * error, fmt=".", color="0.3", label="2000 fields, two standard errors")
axis.plot(distance, exact, color="#3b71b5", label="kernel")
axis.set(xlabel="distance", ylabel="covariance")
axis.legend(frameon=False)
plt.show()
