"""
Twenty-five Gaussians: adversarial networks
===========================================

An adversarial network learns to draw, not to give densities: a generator makes rows from noise, and a critic learns to
tell them from real ones. The test that it can fail visibly is a grid of Gaussians, of which a bad one finds only some.
"""

# %%
# Data with gaps
# --------------
# A generator is continuous, so the bell of noise also lands between the modes, and to make those bridges thin takes
# long training. With ``columns="modes"`` a number is instead shown as the mode it lies in and its place there, and the
# generator draws modes as it draws categories.

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
line = 2.0 * np.arange(-2, 3)
centers = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
X = centers[rng.integers(25, size=10_000)] + 0.2 * rng.normal(size=(10_000, 2))

settings = {"latent_dim": 8, "hidden_layer_sizes": (64, 64), "trainer": {"steps": 2500, "lr": 2e-3}, "random_state": 0}
model = benthic.GAN(columns="modes", **settings).fit(X)
print(model.summary())

# %%
# What was drawn
# --------------
# Left the data, then samples of the model, and of the same one that sees standardized numbers, after as many updates.

plain = benthic.GAN(columns="standard", **settings).fit(X)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharex=True, sharey=True)
shown = {"data": X[:2000], "columns by modes": model.sample(2000), "standardized columns": plain.sample(2000)}
for panel, (title, rows) in zip(axes, shown.items(), strict=True):
    panel.scatter(*rows.T, s=2, linewidth=0)
    panel.set(title=title, aspect="equal")
    distance = np.linalg.norm(rows[:, None] - centers, axis=2).min(1)
    print(f"{title:20} within three standard deviations of a mode: {(distance < 0.6).mean():.1%}")

# %%
# How the game went
# -----------------
# Losses of players do not fall as a fit's do; the critic's gap and the clusters covered say more.

steps = [entry["step"] for entry in model.history_ if "coverage" in entry]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for name, label in (("coverage", "clusters covered"), ("critic_gap", "critic's gap")):
    left.plot(steps, [entry[name] for entry in model.history_ if name in entry], label=label)
left.legend(frameon=False)
left.set(xlabel="update")
for name in ("critic", "generator"):
    right.plot(steps, [entry[f"{name}_gradient"] for entry in model.history_ if "coverage" in entry], label=name)
right.legend(frameon=False)
right.set(xlabel="update", ylabel="norm of the gradient", yscale="log")

# %%
# Rows have likelihoods too, if their law is smoothed: a Gaussian around each of many draws, whose width is chosen on
# rows that were kept from training. A row between the modes is the stranger one.

print("strangeness of a mode, of a gap:", model.anomaly(np.array([[0.0, 0.0], [1.0, 1.0]])).round(2))
plt.show()
