"""
Clusters in a code: VaDE
========================

Clusters are often not round in the space of the data. VaDE learns a code in which they are: a variational autoencoder
whose prior is a mixture of Gaussians, so that it finds clusters and draws new examples from each.
"""

# %%
# Digits without labels
# ---------------------
# Six digits that are easily taken for each other. The clusters are first looked for on a map of a plain autoencoder's
# codes, and kept for a few epochs until the codes have settled around them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import benthic
from benthic.data import load
from benthic.generative.latent_pictures import latent_map

digits = load("digits")
X = np.asarray(digits.X).reshape(-1, 64)
X, y = X / X.max(), np.asarray(digits.y)
few = np.isin(y, [1, 2, 3, 7, 8, 9])
X, y = X[few], y[few]
model = benthic.VaDE(
    6,
    latent_dim=8,
    start="map",
    guided_epochs=5,
    hidden_layer_sizes=(64,),
    decoder="bernoulli",
    binarize=True,
    pretrain_epochs=20,
    trainer=benthic.Trainer(epochs=20, batch_size=64, lr=3e-3),
    random_state=0,
).fit(X)
print(model.summary())
plain = benthic.KMeans(6, random_state=0).fit(X)
for name, labels in (("VaDE", model.labels_), ("k-means", plain.labels_)):
    print(f"{name:8} agreement with the true digits (adjusted Rand index): {adjusted_rand_score(y, labels):.3f}")

# %%
# New digits from each cluster
# ----------------------------
# The first column is the decoded center of a cluster; the others are what the model makes of draws from it.

figure, axes = plt.subplots(6, 9, figsize=(6, 4), layout="constrained")
for cluster, line in enumerate(axes):
    center = model.decode(model.means_[[cluster]])
    codes = model.encode(model.sample(8, given=cluster, seed=0))
    for cell, picture in zip(line, np.concatenate([center, model.decode(codes)]), strict=True):
        cell.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        cell.set_axis_off()
plt.show()

# %%
# The code
# --------
# Colors are the true digits, which the model never saw.

figure = latent_map(model, X, y, title="codes, by digit")
figure

# %%
# How many clusters?
# ------------------
# A list of numbers asks for the one with the lowest BIC. Three clouds in ten columns:

rng = np.random.default_rng(0)
clouds = np.concatenate([rng.normal(size=(10,)) * 3 + rng.normal(size=(120, 10)) for _ in range(3)])
chosen = benthic.VaDE(
    [2, 3, 5], latent_dim=2, hidden_layer_sizes=(32,), pretrain_epochs=15, trainer={"steps": 200}, random_state=0
).fit(clouds)
print({k: round(v) for k, v in chosen.bics_.items()}, "->", chosen.n_clusters_)
