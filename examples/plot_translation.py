"""
Pictures from pictures
======================

Pairs of pictures teach a network to turn one into the other. The absolute error says what belongs where, and a critic
that looks at patches of both pictures together says whether the result looks real, where the error alone would blur.
"""

# %%
# Digits behind frosted glass
# ---------------------------
# Every digit is blurred, and noise is added; the network is to find the digit again.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import benthic
from benthic.data import load

Y = np.asarray(load("digits").X).reshape(-1, 1, 8, 8)
Y = Y / Y.max()
noise = np.random.default_rng(0).normal(size=Y.shape)
X = gaussian_filter(Y, (0, 0, 1, 1)) + 0.05 * noise
model = benthic.ImageTranslation(
    channels=(24, 48),
    critic_channels=(24,),
    l1_weight=20.0,
    trainer=benthic.Trainer(steps=700, batch_size=64, lr=2e-3),
    random_state=0,
).fit(X[:1500], Y[:1500])
print(model.summary())

# %%
# Digits that were never seen
# ---------------------------
# Above what is given, then what the network makes of it, below the truth.

held = slice(1500, 1512)
made = model.predict(X[held])
figure, axes = plt.subplots(3, 12, figsize=(8, 2.2), layout="constrained")
for line, pictures in zip(axes, (X[held], made, Y[held]), strict=True):
    for cell, picture in zip(line, pictures, strict=True):
        cell.imshow(picture[0], cmap="gray_r", vmin=0, vmax=1)
        cell.set_axis_off()
plt.show()

# %%
# How near it comes
# -----------------
# The share of variance explained over all pixels of held-out digits, and that of the frosted pictures themselves.

rest = slice(1500, None)
spread = np.square(Y[rest] - Y[rest].mean(0)).sum()
print(f"frosted    {1 - np.square(X[rest] - Y[rest]).sum() / spread:.3f}")
print(f"translated {model.score(X[rest], Y[rest]):.3f}")

# %%
# How the game went
# -----------------

model.plot(X[held], Y[held])
plt.show()
