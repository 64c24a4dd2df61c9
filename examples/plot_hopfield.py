"""
A memory that completes
=======================

A Hopfield network stores patterns as valleys of an energy. Started anywhere, it runs downhill, and so recalls a whole
pattern from a part or a spoiled copy of it.
"""

# sphinx_gallery_thumbnail_number = 1

# %%
# Four letters
# ------------
# Each letter is 49 cells of 1 or 0. Hebb's rule mixes up letters that share many cells; the pseudo-inverse keeps them
# apart.

import matplotlib.pyplot as plt
import numpy as np

import benthic

LETTERS = {
    "B": "##### #....# #....# ##### #....# #....# #####",
    "H": "#.....# #.....# #.....# ####### #.....# #.....# #.....#",
    "X": "#.....# .#...#. ..#.#.. ...#... ..#.#.. .#...#. #.....#",
    "O": ".#####. #.....# #.....# #.....# #.....# #.....# .#####.",
}
letters = np.array([[float(c == "#") for row in text.split() for c in row.ljust(7, ".")] for text in LETTERS.values()])
memory = benthic.Hopfield("pseudo-inverse", random_state=0).fit(letters)

rng = np.random.default_rng(1)
spoiled = np.where(rng.random(letters.shape) < 0.15, 1 - letters, letters)
recalled = memory.reconstruct(spoiled)

figure, axes = plt.subplots(3, 4, figsize=(5.6, 4.4), layout="constrained")
for row, (title, pictures) in zip(
    axes, {"stored": letters, "spoiled": spoiled, "recalled": recalled}.items(), strict=True
):
    for axis, picture in zip(row, pictures, strict=True):
        axis.imshow(picture.reshape(7, 7), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(title)
plt.show()

# %%
# A part is enough
# ----------------
# ``impute`` holds the cells that are known and lets the others fall into place. Here only the upper three rows are
# given.

half = letters.copy()
half[:, 21:] = np.nan
print("cells completed rightly:", (memory.impute(half) == letters).mean())

# %%
# Downhill
# --------
# One unit after another is asked to agree with its field. No flip ever raises the energy, so recall must stop.

patterns = rng.choice([-1.0, 1.0], size=(10, 200))
network = benthic.Hopfield(random_state=0).fit(patterns)
noise = rng.choice([-1.0, 1.0], size=(25, 200))
close = np.where(rng.random((25, 200)) < 0.25, -1, 1) * patterns[rng.integers(0, 10, 25)]
figure, axis = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
for start, color, label in ((noise, "0.6", "from noise"), (close, "C0", "from spoiled patterns")):
    trace = network.recall(start).energy
    axis.plot(trace, color=color, linewidth=0.8, label=[label] + [None] * 24)
axis.axhline(network.energy(patterns).mean(), color="C3", linestyle="--", linewidth=1, label="stored patterns")
axis.set(xlabel="sweep", ylabel="energy", xticks=range(6))
axis.legend(frameon=False, fontsize="small")
plt.show()

# %%
# Cross-talk
# ----------
# A stored bit feels its own pattern, and the others as noise. Where that noise passes the limit, the bit is lost.

network.plot()

# %%
# How much fits in
# ----------------
# For random patterns, memory breaks down at 0.138 patterns for each unit: the first wrong bits turn over more of them.
# Up to 1 / (2 ln d) nearly every pattern comes back without a single wrong bit.

from benthic.memory import capacity, capacity_curve

print({name: round(value, 1) for name, value in capacity(300).items()})
curve = capacity_curve(300, np.linspace(0.03, 0.22, 14), trials=3)
curve.plot()
