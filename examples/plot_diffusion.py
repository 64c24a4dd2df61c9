"""
Diffusion: from noise to data in any number of steps
====================================================

A diffusion model learns to tell data from noise at every level of noise. From that one network come samples, by any
sampler and in any number of steps; densities; and samples of a kind that was asked for.
"""

# %%
# Eight clusters on a ring. ``FlowMatching`` is one preset of the family: straight paths from data to noise, and a
# network that answers with the velocity along them.

import numpy as np
import torch

import benthic
from benthic.generative.diffusion import trajectory
from benthic.pictures.canvas import new_figure

rng = np.random.default_rng(0)
label = rng.integers(0, 8, 2000)
angle = label * np.pi / 4
X = 3 * np.stack([np.cos(angle), np.sin(angle)], 1) + 0.25 * rng.normal(size=(2000, 2))

trainer = {"steps": 1500, "batch_size": 256, "lr": 5e-3, "verbose": False}
settings = {"hidden": 96, "depth": 2, "trainer": trainer, "random_state": 0}
model = benthic.FlowMatching(**settings).fit(X)
print(model.summary())

# %%
# The same network with few and with many steps. Two are too few; from ten on there is little to see between them.

figure, axes = new_figure(10.5, 2.9, 1, 4, sharex=True, sharey=True)
for place, steps in zip(axes, (2, 5, 10, 40), strict=True):
    place.scatter(*model.sample(600, seed=1, steps=steps).T, s=3, linewidth=0)
    place.set(title=f"{steps} steps", aspect="equal", xlim=(-4.5, 4.5), ylim=(-4.5, 4.5))
figure

# %%
# How points travel: noise first moves toward the ring, at the end to a cluster. The denoiser works in standard units,
# so the paths are scaled back to those of the data.

path = trajectory(model.denoiser(n=60), (60, 2), sampler="heun", steps=40, seed=3, dtype=torch.float32)
states = np.stack([model.scales_.inverse(state).numpy() for state in path.states])
figure, axes = new_figure(4.4, 4.2)
axes.plot(states[:, :, 0], states[:, :, 1], color="0.75", linewidth=0.6)
axes.scatter(*states[-1].T, s=8, color="C1", zorder=3)
axes.set(xlim=(-7, 7), ylim=(-7, 7), aspect="equal", title="paths of the probability flow")
figure

# %%
# The probability flow also gives the density. Here it is beside the truth, in nats a point; training was short, and a
# longer one comes closer.

centers = 3 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], 1)
rows = centers[rng.integers(0, 8, 300)] + 0.25 * rng.normal(size=(300, 2))
squares = np.square(rows[:, None] - centers).sum(2) / (2 * 0.25**2)
truth = np.logaddexp.reduce(-squares, axis=1) - np.log(8 * 2 * np.pi * 0.25**2)
print(f"learned {model.likelihood(rows).mean():.3f}, true {truth.mean():.3f} nats")

# %%
# With labels the model becomes conditional, and a label asks for one cluster. Guidance above 1 exaggerates what
# distinguishes it: samples move away from the other clusters, and spread less. Guidance 0 ignores the label; that part
# learned from a tenth of the rows only, whose labels were hidden.

by_label = benthic.FlowMatching(**settings).set_params(trainer__steps=800).fit(X, label)
figure, axes = new_figure(8.0, 2.9, 1, 3, sharex=True, sharey=True)
for place, guidance in zip(axes, (0.0, 1.0, 3.0), strict=True):
    drawn = by_label.sample(300, given=0, guidance=guidance, seed=2)
    place.scatter(*X.T, s=1, color="0.85", linewidth=0)
    place.scatter(*drawn.T, s=4, linewidth=0)
    place.set(title=f"label 0, guidance {guidance:g}", aspect="equal", xlim=(-4.5, 5.5), ylim=(-4.5, 4.5))
figure

# %%
# Training, the loss that is left at each level of noise, and a few samples.

model.plot()

# %%
# Methods by their papers
# -----------------------
# Process, target, weighting, sampler and steps are independent values, and a published method is a choice of them:
# ``published("improved_ddpm").fit(X)``, or with a value of your own, ``published("edm", sampler="dpm2m", steps=10)``.

from benthic.generative.diffusion import PUBLISHED

for name, method in PUBLISHED.items():
    print(f"{name:16} {method.model:22} {method.source}")
