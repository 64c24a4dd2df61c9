"""
Digits on a map, and digits from a mixture
==========================================

Two ways to look at images without their labels: a map on which alike digits lie together, and a mixture of Gaussians
that says how digits are distributed, names groups of them, and draws new ones. Both begin with PCA.
"""

# %%
# Fewer columns first
# -------------------
# Thirty principal directions keep 96 % of the variance, and everything after them is quicker and less noisy.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import benthic
from benthic.metrics import trustworthiness

X, y = load_digits(return_X_y=True)
pca = benthic.PCA(30)
Z = pca.fit_transform(X)
print(pca.summary())

# %%
# A map by t-SNE
# --------------
# Colors are the labels, which the map has never seen. How often the nearest other digit is of the same class, on the
# map and in the data, tells what the map costs.

model = benthic.TSNE(max_iter=500, random_state=0)
places = model.fit_transform(Z)


def agreement(rows):
    """Share of rows whose nearest other row is of the same class."""
    square = np.square(rows).sum(1)
    apart = square[:, None] + square - 2 * rows @ rows.T
    np.fill_diagonal(apart, np.inf)
    return (y[apart.argmin(1)] == y).mean()


print(f"nearest is of the same class: {agreement(Z):.3f} in the data, {agreement(places):.3f} on the map")
print(f"trustworthiness of the map: {trustworthiness(Z, places).value:.3f}")

# %%
# A mixture in the same columns
# -----------------------------
# Twenty Gaussians, each with a covariance of its own. The map is drawn again, colored by the component that a digit
# most probably came from: components find the groups that t-SNE shows, and split the larger ones by style.

mixture = benthic.GaussianMixture(20, reg_covar=0.5, random_state=0).fit(Z)
component = mixture.predict(Z)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for panel, color, title in zip(axes, (y, component), ("by label", "by component of the mixture"), strict=True):
    panel.scatter(*places.T, c=color, cmap="tab10" if color is y else "tab20", s=6, linewidth=0)
    panel.set(title=title, xticks=[], yticks=[])
for digit in range(10):
    axes[0].annotate(str(digit), np.median(places[y == digit], axis=0), fontsize=14, weight="bold")
plt.show()

# %%
# What the mixture has learned
# ----------------------------
# Means of the components, by weight, and new digits drawn from it, all turned back into images by PCA.

order = np.argsort(-mixture.weights_)
means = pca.inverse_transform(mixture.means_[order])
draws = pca.inverse_transform(mixture.sample(20, seed=1))
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for panel, images, title in zip(axes, (means, draws), ("means of the components", "new digits"), strict=True):
    framed = np.pad(images.reshape(4, 5, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wall = framed.swapaxes(1, 2).reshape(40, 50)
    panel.imshow(wall, cmap="gray_r", vmin=0, vmax=16)
    panel.set(title=title, xticks=[], yticks=[])
plt.show()
