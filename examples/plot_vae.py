"""
A variational autoencoder on digits
===================================

A VAE learns a code z for every example and a decoder that turns codes back into examples. It gives new
examples, a map of the data, a bound on the likelihood, and it fills gaps.
"""

# %%
# Learn
# -----

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load
from benthic.pictures.grids import image_grid, scatter_map

digits = load("digits")
X = (np.asarray(digits.X) > 0.5).astype(float)
trainer = benthic.Trainer(epochs=60, lr=3e-3, schedule="cosine")
model = benthic.VAE(8, decoder="bernoulli", trainer=trainer, random_state=0).fit(X[:1500])
print(model.summary())

# %%
# New digits, and what remains of old ones
# ----------------------------------------

figure = image_grid(
    model.decode(model.encode(model.sample(20, seed=1))).reshape(-1, 8, 8), title="drawn from the model"
)
figure

# %%

shown = np.concatenate([X[1500:1510], model.reconstruct(X[1500:1510])]).reshape(-1, 8, 8)
figure = image_grid(shown, rows_title=["held-out digits", "their reconstructions"])
figure

# %%
# A map of the data
# -----------------
# Two latent dimensions are enough to see the classes fall apart.

flat = benthic.VAE(2, decoder="bernoulli", trainer=trainer, random_state=0).fit(X[:1500])
figure = scatter_map(flat.encode(X[1500:]), np.asarray(digits.y)[1500:], title="held-out digits in the plane")
figure

# %%
# How likely is a digit?
# ----------------------
# The ELBO and the importance-weighted bound are both lower bounds, and each says so. More draws tighten it.

for method in ("elbo", "importance(8)", "importance(64)", "importance(512)"):
    print(model.likelihood(X[1500:], method=method))

# %%
# Filling gaps
# ------------
# The lower half is unknown; the model draws it given the upper half.

given = X[1500:1505].copy()
given[:, 32:] = np.nan
rows = [model.sample(8, given=row[None], seed=0) for row in given]
figure, axes = plt.subplots(5, 9, figsize=(6, 3.4), layout="constrained")
for line, row, drawn in zip(axes, given, rows, strict=True):
    line[0].imshow(np.nan_to_num(row, nan=0.5).reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    for cell, picture in zip(line[1:], drawn, strict=True):
        cell.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    for cell in line:
        cell.set_axis_off()
axes[0, 0].set_title("given", fontsize="small")
axes[0, 1].set_title("drawn", fontsize="small")
plt.show()
