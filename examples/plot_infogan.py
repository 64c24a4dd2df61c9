"""
Codes that mean something: InfoGAN
==================================

A plain adversarial network makes pictures from noise of which no number means anything. InfoGAN adds codes, a category
and a number, and a second task: the codes must be told from the picture that was made of them. So the category comes to
stand for what is distinct in the data, and the number for what changes smoothly, though no label is ever seen.
"""

# %%
# Three digits without labels
# ---------------------------
# Pictures of 8 by 8 pixels, three categories and one continuous code. Without a penalty on gradients the critic has
# batch norm, as in the paper. Nothing in the paper keeps a category from standing for, say, slant; here it shall also
# stay the same when a picture is moved, turned and stretched a little, which leaves the digit.

import matplotlib.pyplot as plt
import numpy as np

import benthic
from benthic.data import load

digits = load("digits")
X, y = np.asarray(digits.X).reshape(-1, 1, 8, 8), np.asarray(digits.y)
few = np.isin(y, [0, 1, 7])
X, y = X[few] / X.max(), y[few]
model = benthic.InfoGAN(
    10,
    categories=3,
    continuous=1,
    continuous_weight=0.2,
    invariance=1.0,
    channels=(16, 32),
    penalty=None,
    trainer=benthic.Trainer(steps=700, batch_size=64, lr=2e-3),
    random_state=0,
).fit(X)
print(model.summary())

# %%
# What the category stands for
# ----------------------------
# Real digits are given the category from which they would most probably be made. Rows are true digits.

found = model.predict(X)
for digit in (0, 1, 7):
    print(digit, np.bincount(found[y == digit], minlength=3))

# %%
# What the number stands for
# --------------------------
# Every line is one category made from the same noise, while the continuous code goes from -1 to 1.

places = np.linspace(-1, 1, 9)
figure, axes = plt.subplots(3, 9, figsize=(7, 2.8), layout="constrained")
for category, line in enumerate(axes):
    for cell, picture in zip(line, model.vary(0, places, category=category, seed=4), strict=True):
        cell.imshow(picture[0], cmap="gray_r", vmin=0, vmax=1)
        cell.set_axis_off()
plt.show()

# %%
# How much is told
# ----------------
# The lower bound on the mutual information of codes and pictures over training. All that can be told of the category is
# the logarithm of three.

steps, told = zip(*[(e["step"], e["category_information"]) for e in model.history_ if "information" in e], strict=True)
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(steps, told, label="bound")
axes.axhline(np.log(3), color="0.5", linestyle="--", label="log 3")
axes.set(xlabel="update", ylabel="nats", title="what pictures tell of their category")
axes.legend(frameon=False)
plt.show()
