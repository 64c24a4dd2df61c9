"""
Autoencoders: plain, denoising and sparse
=========================================

An autoencoder puts a picture into a small code and rebuilds it from there. What it cannot rebuild is strange; what it
learns depends on what it is asked to rebuild, and from what.
"""

# %%
# A plain one
# -----------

import numpy as np

import benthic
from benthic.data import load
from benthic.generative.latent_pictures import interpolations, latent_map, reconstructions, traversals
from benthic.pictures.grids import image_grid

digits = load("digits")
X = np.asarray(digits.X).reshape(-1, 64)
X, y = X / X.max(), np.asarray(digits.y)
train, test = X[:1500], X[1500:]
settings = {"hidden_layer_sizes": (64,), "decoder": "bernoulli", "random_state": 0}
trainer = benthic.Trainer(epochs=30, lr=5e-3, schedule="cosine")
model = benthic.Autoencoder(8, **settings, trainer=trainer).fit(train)
print(model.summary())

# %%

figure = reconstructions(model, test, shape=(8, 8))
figure

# %%
# The way from one digit to another through the codes.

figure = interpolations(model, test[[0, 2, 4]], test[[1, 3, 5]], shape=(8, 8), method="linear")
figure

# %%
# What each number of the code does, while the others rest.

figure = traversals(model, test, steps=11, shape=(8, 8))
figure

# %%
# Noise that is learned to be removed
# -----------------------------------
# A denoising autoencoder sees spoiled digits and must rebuild the clean ones. Here a third of the pixels are set to
# black or white.

denoising = benthic.Autoencoder(
    16, **settings, corruption="salt_and_pepper", corruption_level=0.3, trainer=trainer
).fit(train)
rng = np.random.default_rng(0)
spoiled = np.where(rng.random(test.shape) < 0.3, rng.random(test.shape) < 0.5, test)
for name, one in (("plain", model), ("denoising", denoising)):
    print(f"{name:10} mean squared error on spoiled digits: {np.square(one.reconstruct(spoiled) - test).mean():.4f}")
rows = [spoiled[:10], model.reconstruct(spoiled[:10]), denoising.reconstruct(spoiled[:10]), test[:10]]
figure = image_grid(
    np.concatenate(rows).reshape(-1, 8, 8), rows_title=["spoiled", "plain", "denoising", "as they were"]
)
figure

# %%
# What is strange
# ---------------
# Digits turned upside down are rebuilt badly by a model that has only seen upright ones, most of all those that look
# like no other digit when turned.

turned = test[:, ::-1]
both = np.concatenate([model.anomaly(test), model.anomaly(turned)])
strangest = np.argsort(-both)[:20]
print(f"of the 20 strangest digits {np.sum(strangest >= len(test))} are turned")

# %%
# Few units at a time
# -------------------
# The KL penalty draws the mean activation of every unit towards a twentieth, so that a digit is told by the few
# units that answer to it.

sparse = benthic.Autoencoder(
    64, **settings, sparsity="kl", sparsity_weight=0.3, target_activation=0.05, trainer=trainer
).fit(train)
codes = sparse.encode(test)
print(f"mean activation {codes.mean():.3f}; units above a quarter: {(codes > 0.25).sum(1).mean():.1f} of 64 a digit")

# %%
# A map
# -----

figure = latent_map(model, test, y[1500:], title="codes of held-out digits")
figure
