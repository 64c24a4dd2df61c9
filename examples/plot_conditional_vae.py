"""
A conditional variational autoencoder: digits to order
======================================================

A conditional VAE learns p(x|y): both of its networks are told the label, so that the code is left with everything
else, such as slant and stroke. It draws what is asked for, gives the style of one example to other labels, and
classifies by asking under which label a picture is most probable.
"""

# %%
# Learn, and draw to order
# ------------------------
# Each column was asked for by its label; each row is drawn from one code.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load
from benthic.pictures.grids import image_grid

digits = load("digits")
X, y = (np.asarray(digits.X) > 0.5).astype(float), np.asarray(digits.y)
trainer = benthic.Trainer(epochs=25, lr=3e-3, schedule="cosine")
model = benthic.ConditionalVAE(4, hidden_layer_sizes=(128, 64), decoder="bernoulli", trainer=trainer, random_state=0)
model.fit(X[:1500], y[:1500])
print(model.summary())

labels = np.arange(10)
codes = np.random.default_rng(3).normal(size=(5, 4))
rows = [model.decode(np.repeat(code[None], 10, 0), given=labels) for code in codes]
figure = image_grid(np.concatenate(rows).reshape(-1, 8, 8), title="one code a row, one label a column")
figure

# %%
# The style of one, the label of another
# --------------------------------------
# The code of a held-out digit, given its own label, is decoded under all others.

chosen = [1502, 1511, 1525, 1541]
pictures = []
for i in chosen:
    code = model.encode(X[i : i + 1], given=y[i])
    pictures += [X[i], *model.decode(np.repeat(code, 10, 0), given=labels)]
figure = image_grid(np.array(pictures).reshape(-1, 8, 8), columns=11, rows_title=["held out, then as 0 to 9"])
figure

# %%
# Which label makes it most probable?
# -----------------------------------
# Without a label it is summed out with the class frequencies: the likelihood is then a bound on log p(x), and the
# shares of the sum are the probabilities of the labels.

test = slice(1500, None)
print("accuracy", round(model.score(X[test], y[test]), 3))
print(model.likelihood(X[test]))
print(model.likelihood(X[test], given=y[test]))

probabilities = model.predict_proba(X[test])
doubtful = np.argsort(probabilities.max(1))[:4]
figure, axes = plt.subplots(2, 4, figsize=(7, 3), layout="constrained", height_ratios=(2, 1))
for column, i in zip(axes.T, doubtful, strict=True):
    column[0].imshow(X[test][i].reshape(8, 8), cmap="gray_r")
    column[0].set_axis_off()
    column[1].bar(labels, probabilities[i], color="C0")
    column[1].set(xticks=labels, ylim=(0, 1))
    column[1].tick_params(labelsize="x-small")
figure.suptitle("held-out digits it is least sure of", fontsize="medium")
plt.show()

# %%
# A curve given where along it
# ----------------------------
# Conditions may be numbers. Here the data are points around two branches of a curve, and the condition is the place
# along it: the model draws both branches.

rng = np.random.default_rng(0)
place = rng.uniform(-3, 3, size=800)
branch = rng.choice([-1.0, 1.0], size=800)
points = np.column_stack([np.sin(place), branch * (1 + 0.5 * np.cos(place))]) + 0.06 * rng.normal(size=(800, 2))
curve = benthic.ConditionalVAE(
    1,
    condition="vectors",
    hidden_layer_sizes=(32, 32),
    trainer={"epochs": 60, "lr": 0.01, "schedule": "cosine"},
    random_state=0,
).fit(points, place)

figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
axes.scatter(*points.T, s=4, color="0.8", linewidth=0)
for value in (-2.0, 0.0, 1.5):
    drawn = curve.sample(150, given=[value], seed=0)
    axes.scatter(*drawn.T, s=6, linewidth=0, label=f"given {value:g}")
axes.set_xlim(-1.6, 2.4)
axes.legend(frameon=False, fontsize="small", loc="center right", markerscale=2)
plt.show()
