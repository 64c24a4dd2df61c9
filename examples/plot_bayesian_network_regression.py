"""
A network that knows what it does not know
==========================================

A Bayesian network keeps many networks that explain the data, in proportion to how well they do. Where they agree, the
answer is sure; where they do not, more data would help; and what is left is noise that no data take away.
"""

# %%
# Two kinds of doubt
# ------------------
# The data have a gap in the middle and end at both sides. The dark band is doubt about the function (epistemic), the
# light band adds the noise of the measurements (aleatoric). Hamiltonian Monte Carlo gives the widest bands away from
# the data. Independent normal laws for the weights are too sure there, and take some of the signal for noise.

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(-3, -0.8, 60), rng.uniform(1.0, 3, 60)])[:, None]
y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] + 0.15 * rng.normal(size=120)
grid = np.linspace(-5, 5, 300)[:, None]

models = {
    "Hamiltonian Monte Carlo": benthic.BayesianMLPRegressor(
        (30,), "tanh", draws=40, warmup=40, leapfrog_steps=20, random_state=0
    ),
    "stochastic-gradient HMC": benthic.BayesianMLPRegressor(
        (30,), "tanh", inference="sghmc", draws=40, trainer={"steps": 900}, random_state=0
    ),
    "independent normal laws": benthic.BayesianMLPRegressor(
        (30,), "tanh", inference="variational", draws=40, trainer={"steps": 900}, random_state=0
    ),
}
figure, row = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for axes, (name, model) in zip(row, models.items(), strict=True):
    model.fit(X, y)
    mean, doubt = model.predict(grid), model.uncertainty(grid)
    for variance, alpha in ((doubt.total, 0.2), (doubt.epistemic, 0.35)):
        axes.fill_between(
            grid[:, 0], mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance), color="C0", alpha=alpha, linewidth=0
        )
    axes.plot(grid, mean, color="C0")
    axes.scatter(X, y, s=6, color="black", zorder=3)
    axes.set(title=name, ylim=(-4.5, 4.5), xlabel="x")
plt.show()

# %%
# Are the intervals honest?
# -------------------------
# Of new targets, a share near p should fall into the interval of level p.

new = rng.choice([-1, 1], 500) * rng.uniform(1, 3, 500)
targets = np.sin(2 * new) + 0.3 * new + 0.15 * rng.normal(size=500)
figure, axes = plt.subplots(figsize=(4, 3.6), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.8")
for name, model in models.items():
    found = model.calibration(new[:, None], targets)
    axes.plot(found.expected, found.observed, marker="o", markersize=3, label=f"{name}, {found.error:.3f}")
axes.set(xlabel="level of the interval", ylabel="share of targets inside")
axes.legend(frameon=False, fontsize="small")
plt.show()

# %%
# Where to ask next
# -----------------
# For classes the same split is one of entropy: the members may each be sure and disagree (left: far from the data), or
# agree that the classes overlap (right: along the border).

angle = rng.uniform(0, np.pi, 150)
side = rng.integers(0, 2, 150)
rows = np.column_stack([np.cos(angle) + side, np.sin(angle) * (1 - 2 * side) + 0.25 * side])
rows += 0.25 * rng.normal(size=rows.shape)
model = benthic.BayesianMLPClassifier((20,), "tanh", draws=30, warmup=30, leapfrog_steps=15, random_state=0)
model.fit(rows, side)
first, second = np.meshgrid(np.linspace(-3, 4, 90), np.linspace(-3, 3, 80))
doubt = model.uncertainty(np.column_stack([first.ravel(), second.ravel()]))
figure, both = plt.subplots(1, 2, figsize=(8, 3.3), layout="constrained", sharey=True)
for axes, part, title in zip(both, (doubt.epistemic, doubt.aleatoric), ("epistemic", "aleatoric"), strict=True):
    shade = axes.pcolormesh(first, second, part.reshape(first.shape), cmap="Blues", shading="gouraud")
    axes.scatter(*rows.T, c=np.where(side == 1, "C1", "0.3"), s=8)
    axes.set(title=f"{title} entropy")
    figure.colorbar(shade, ax=axes, label="nats")
plt.show()
