"""
Normalizing flows
=================

A normalizing flow carries a standard normal to the data by invertible maps. It has exact densities, exact samples, and
a code for every example. Here the rows lie on two spiral arms, and three kinds of maps learn them.
"""

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data.toys import toy

law = toy("spirals")
X, test = law.sample(3000, seed=0), law.sample(3000, seed=1)

# %%
# Splines bend a column as much as they need to; affine maps, of which RealNVP and MAF are made, can only move and
# scale, so that they leave bridges between the arms.

settings = {"hidden_layer_sizes": (48, 48), "random_state": 0, "trainer": {"steps": 250, "lr": 0.01}}
models = {kind: benthic.NormalizingFlow(kind, **settings).fit(X) for kind in ("nsf", "realnvp", "maf")}

side = np.linspace(-3, 3, 120)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (kind, model) in zip(axes, models.items(), strict=True):
    density = np.exp(model.log_prob(grid)).reshape(len(side), len(side))
    axis.pcolormesh(side, side, density, cmap="Blues", vmax=np.quantile(density, 0.995))
    axis.scatter(*X[:300].T, s=2, color="C1", linewidth=0)
    axis.set(title=f"{kind}: {model.score(test):.2f} nats", aspect="equal")
print(f"the law itself: {law.log_prob(test).mean():.2f} nats")

# %%
# Codes are standard normal, and the way back is exact.

flow = models["nsf"]
codes = flow.encode(X)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
color = np.arctan2(X[:, 1], X[:, 0])
for axis, points, title in ((axes[0], X, "data"), (axes[1], codes, "codes")):
    axis.scatter(*points.T, s=3, c=color, cmap="twilight", linewidth=0)
    axis.set(title=title, aspect="equal")
print(f"largest error on the way back: {np.abs(flow.decode(codes) - X).max():.1e}")

# %%
# What is missing in a row is drawn given the rest, by a Markov chain that moves codes.

known = np.array([[1.0, np.nan]])
drawn = flow.sample(600, given=known, seed=0)
line = np.linspace(-3, 3, 300)
slice_ = np.exp(flow.log_prob(np.stack([np.full(300, 1.0), line], 1)))
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.hist(drawn[:, 1], bins=60, range=(-3, 3), density=True, color="0.8", label="draws given x = 1")
axis.plot(line, slice_ / (slice_.sum() * (line[1] - line[0])), label="density along x = 1")
axis.set(xlabel="y")
axis.legend(fontsize="small")

# %%
# A flow can be given labels, or vectors, and tables may have whole numbers, bounded columns and categories. Of the
# flow below the number of visits is a grid, filled with noise, and the share lies between zero and one.

rng = np.random.default_rng(0)
group = rng.choice(["new", "old"], 1500)
visits = rng.poisson(np.where(group == "old", 9, 2))
share = rng.beta(1 + visits, 5)
table = np.stack([visits, share], 1)
model = benthic.NormalizingFlow(
    condition="labels", columns={0: "discrete", 1: (0, 1)}, random_state=0, trainer={"steps": 200}
).fit(table, group)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharex=True, sharey=True, layout="constrained")
for axis, rows, title in (
    (axes[0], {name: table[group == name] for name in ("new", "old")}, "data"),
    (axes[1], {name: model.sample(700, given=name, seed=0) for name in ("new", "old")}, "drawn given the label"),
):
    for name, points in rows.items():
        axis.scatter(*points.T, s=4, label=name, linewidth=0)
    axis.set(title=title, xlabel="visits")
axes[0].set(ylabel="share")
axes[0].legend()
print(model.likelihood(table, given=group))
