"""
Gaussian-process classification: knowing where one does not know
================================================================

A latent function with a Gaussian-process prior goes through a logistic curve. Near the data the probabilities are
sharp; far from them they go back to one half.
"""

# %%
# Two moons
# ---------
# Laplace's method puts a normal law around the most probable latent function; its width is what makes the
# probabilities fade away from the data. Beside it, the standard deviation of the latent function.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import benthic
from benthic.kernels import RBF

X, y = make_moons(120, noise=0.2, random_state=0)
model = benthic.GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
print(model.summary())

first, second = np.meshgrid(np.linspace(-3, 4, 150), np.linspace(-2.5, 3, 150))
grid = np.column_stack([first.ravel(), second.ravel()])
probability = model.predict_proba(grid)[:, 1].reshape(first.shape)
spread = np.sqrt(model.latent_mean_and_variance(grid)[1]).reshape(first.shape)

figure, axes = plt.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained", sharey=True)
for axis, values, title, colors in (
    (axes[0], probability, "probability of the second class", "RdBu_r"),
    (axes[1], spread, "standard deviation of the latent function", "viridis"),
):
    limits = {"vmin": 0, "vmax": 1} if axis is axes[0] else {}
    picture = axis.pcolormesh(first, second, values, cmap=colors, shading="gouraud", **limits)
    figure.colorbar(picture, ax=axis)
    axis.scatter(*X.T, c=np.where(y == 1, "#8b1a1a", "#1a3a8b"), s=14, edgecolor="white", linewidth=0.5)
    axis.set(title=title)
axes[0].contour(first, second, probability, [0.5], colors="0.2", linewidths=1)
plt.show()

# %%
# Three classes
# -------------
# Each class has a latent function against the rest, with its own hyper-parameters; probabilities are divided by their
# sum. ``plot`` shows the most probable class, paler where it is unsure.

from benthic.data import load

iris = load("iris")
petals, species = np.asarray(iris.X, dtype=float)[:, 2:], np.asarray(iris.y)
flowers = benthic.GaussianProcessClassifier().fit(petals, species)
flowers.plot()

# %%
# Many rows
# ---------
# Inducing points trained on minibatches take any number of rows. Thirty of them are enough for a curved border.

rng = np.random.default_rng(0)
rows = rng.uniform(-2, 2, size=(4000, 2))
labels = (np.sin(2 * rows[:, 0]) + 0.3 * rng.normal(size=4000) > rows[:, 1]).astype(int)
trainer = {"steps": 300, "lr": 0.03, "batch_size": 200, "verbose": False}
large = benthic.GaussianProcessClassifier(inducing=30, method="svgp", trainer=trainer, random_state=0)
large.fit(rows[:3000], labels[:3000])
print(f"accuracy on new rows {large.score(rows[3000:], labels[3000:]):.3f}")

figure, axis = plt.subplots(figsize=(5, 3.8), layout="constrained")
first, second = np.meshgrid(np.linspace(-2, 2, 120), np.linspace(-2, 2, 120))
probability = large.predict_proba(np.column_stack([first.ravel(), second.ravel()]))[:, 1].reshape(first.shape)
picture = axis.pcolormesh(first, second, probability, cmap="RdBu_r", shading="gouraud", vmin=0, vmax=1)
figure.colorbar(picture, ax=axis)
axis.plot(*large.inducing_points_.numpy().T, "x", color="0.1", markersize=6)
axis.plot(first[0], np.sin(2 * first[0]), "--", color="0.2", linewidth=1)
axis.set(xlim=(-2, 2), ylim=(-2, 2), title="inducing points (crosses) and the true border (dashed)")
plt.show()
