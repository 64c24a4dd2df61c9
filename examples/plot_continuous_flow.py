"""
A continuous flow
=================

A continuous normalizing flow moves points of a standard normal along a learned field until they lie like the data.
The field also says how much it stretches space on the way, and so the density of every point is known.
"""

# %%
# Learn
# -----
# Two half moons. Training takes as many steps along the field as their error asks for, so that what it believes
# about the density is true; the penalty on kinetic energy keeps the paths short, and the field easy to solve.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data.toys import moons, rings_of_gaussians
from benthic.pictures.plane import box_around, density_map

X, test = moons().sample(2000, seed=0), moons().sample(500, seed=1)
trainer = benthic.Trainer(steps=250, lr=2e-2)  # in a hurry; the default of 400 updates is a little better
model = benthic.ContinuousFlow((32, 32), rtol=1e-4, atol=1e-4, trainer=trainer, random_state=0).fit(X)
print(model.summary())
print(model.likelihood(test))
print("the true density has", moons().log_prob(test).mean().round(4))

figure = model.plot()
figure

# %%
# From a normal to the moons
# --------------------------
# The same points at several times, colored by the angle of their code, and the way of some of them.

codes = np.random.default_rng(0).normal(size=(800, 2))
times = [0.0, 0.25, 0.5, 0.75, 1.0]
places = model.paths(codes, times)
angle = np.arctan2(codes[:, 1], codes[:, 0])
box = box_around(places.reshape(-1, 2))
figure, axes = plt.subplots(1, 5, figsize=(10, 2.4), sharex=True, sharey=True, layout="constrained")
for panel, t, points in zip(axes, times, places, strict=True):
    panel.scatter(*points.T, s=4, c=angle, cmap="hsv", linewidth=0)
    panel.set(title=f"t = {t}", xlim=box[:2], ylim=box[2:])
plt.show()

# %%

curves = model.paths(codes[:60], 30)  # (times, points, 2)
figure, axes = plt.subplots(figsize=(4.8, 3.8), layout="constrained")
axes.plot(curves[:, :, 0], curves[:, :, 1], color="0.6", linewidth=0.7)
axes.scatter(*curves[0].T, s=10, label="codes")
axes.scatter(*curves[-1].T, s=10, label="examples")
axes.legend(fontsize="small")
plt.show()

# %%
# Back again
# ----------
# The flow is a map with an inverse: codes of the data are standard normal, and decoding them gives the data back.

found = model.encode(test)
print("covariance of codes\n", np.cov(found.T).round(2))
print("largest error of decode(encode(x)):", np.abs(model.decode(found) - test).max())

# %%
# Eight islands, and what is missing
# ----------------------------------
# A flow has to tear the normal apart to make islands, and thin bridges remain between them. Given one coordinate, the
# other is drawn from where the density has its mass.

ring = rings_of_gaussians()
islands = benthic.ContinuousFlow((32, 32), rtol=1e-4, atol=1e-4, trainer=trainer, random_state=0)
islands.fit(ring.sample(2000, seed=0))
given = np.full((300, 2), np.nan)
given[:, 0] = 1.4
drawn = islands.sample(300, given=given, seed=0)
box = (-3.0, 3.0, -3.0, 3.0)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
density_map(axes[0], ring.log_prob, box, cells=120)
density_map(axes[1], lambda grid: islands.log_prob(grid.astype("float32")), box, cells=80)
axes[1].scatter(*drawn.T, s=4, color="C1", linewidth=0)
axes[2].hist(drawn[:, 1], bins=40, color="C1")
for panel, title in zip(axes, ("truth", "flow, and draws given x = 1.4", "y given x = 1.4"), strict=True):
    panel.set(title=title)
plt.show()
