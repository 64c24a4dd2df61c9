"""
Markov random fields: trees of columns, clean pictures, labels in context
=========================================================================

A Markov random field says which things hang together, and messages along its edges work out what follows for each of
them. On a tree, and on a chain above all, the messages are exact.
"""

# %%
# Which columns hang together
# ---------------------------
# The most likely tree joins the pairs of columns that share most information. Columns of numbers are cut into bins.
# Wide lines share much.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_sample_image, load_wine

import benthic
from benthic.chains import grid_edges

wine = load_wine(as_frame=True)
table = wine.frame.rename(columns=lambda name: name.replace("_", " "))
model = benthic.PairwiseMarkovField(bins=4, random_state=0).fit(table)
print(model.summary())
model.plot()

# %%
# What is known of one column changes what is believed of all others: the marginals of two columns as they are, and
# given that the wine is of kind 2.

names = list(table.columns)
given = pd.DataFrame(np.nan, index=[0], columns=names)
given["target"] = 2
columns = [names.index("color intensity"), names.index("hue")]
figure, both = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained", sharey=True)
for axes, j in zip(both, columns, strict=True):
    axes.bar(np.arange(4) - 0.2, model.marginals()[0, j, :4], 0.4, color="0.75", label="any wine")
    axes.bar(np.arange(4) + 0.2, model.marginals(given)[0, j, :4], 0.4, color="C3", label="kind 2")
    axes.set(title=names[j], xticks=range(4), xticklabels=[f"{v:.2g}" for v in model.levels_[j]])
both[0].set_ylabel("probability")
both[0].legend(frameon=False)
plt.show()

# %%
# A noisy picture
# ---------------
# Neighboring pixels are mostly alike. How much, pseudo-likelihood learns from another picture; then every pixel of a
# picture of which a fifth is flipped asks its neighbors. The graph has loops, so messages go round until they
# settle.


def black_and_white(name: str) -> np.ndarray:
    gray = load_sample_image(name).mean(2)
    small = gray[:424, :640].reshape(53, 8, 80, 8).mean((1, 3))
    return (small > np.median(small)).astype(float)


teacher, clean = black_and_white("china.jpg"), black_and_white("flower.jpg")
field = benthic.PairwiseMarkovField(
    grid_edges(*clean.shape), coupling="potts", tied="all", sweeps=10, random_state=0
).fit(teacher.reshape(1, -1))
print(f"weight of two equal neighbors: {field.pairwise_[0, 0, 0]:.2f}")

rng = np.random.default_rng(0)
noisy = np.where(rng.random(clean.shape) < 0.2, 1 - clean, clean)
evidence = np.log(np.where(noisy.reshape(-1, 1) == [0, 1], 0.8, 0.2))
beliefs = field.beliefs(evidence=evidence)
print(f"settled after {beliefs.iterations} rounds: {bool(beliefs.converged.all())}")
probability = beliefs.nodes[0, :, 1].numpy().reshape(clean.shape)

figure, four = plt.subplots(1, 4, figsize=(9, 2.1), layout="constrained")
shown = (
    ("true", clean),
    ("a fifth flipped", noisy),
    ("probability of white", probability),
    ("answer", probability > 0.5),
)
for axes, (title, picture) in zip(four, shown, strict=True):
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    wrong = (np.round(picture) != clean).mean()
    axes.set_title(f"{title}\n{wrong:.1%} wrong" if wrong else title, fontsize="small")
    axes.set_axis_off()
plt.show()

# %%
# Labels in context
# -----------------
# A sensor says little at each moment, but states last. A chain field learns how features speak for labels and how
# labels follow each other; its probabilities take the whole sequence into account.


def day(rng: np.random.Generator, steps: int) -> tuple[np.ndarray, list[str]]:
    names, state, labels = ("rest", "walk", "run"), 0, []
    for _ in range(steps):
        state = int(np.clip(state + rng.choice([-1, 0, 1], p=[0.06, 0.88, 0.06]), 0, 2))
        labels.append(names[state])
    level = np.array([{"rest": 0.0, "walk": 1.0, "run": 2.0}[label] for label in labels])
    return np.column_stack([level + rng.normal(size=steps), 0.7 * level + rng.normal(size=steps)]), labels


rng = np.random.default_rng(1)
X, y = zip(*(day(rng, rng.integers(40, 120)) for _ in range(60)), strict=True)
chain = benthic.ConditionalRandomField(alpha=1.0).fit(list(X[:40]), list(y[:40]))
alone = benthic.LogisticRegression().fit(np.concatenate(X[:40]), np.concatenate(y[:40]))
truth = np.concatenate(y[40:])
print(f"right labels: step by step {(alone.predict(np.concatenate(X[40:])) == truth).mean():.1%}, ", end="")
print(f"in context {chain.score(list(X[40:]), list(y[40:])):.1%}")

sequence, labels = max(zip(X[40:], y[40:], strict=True), key=lambda pair: len(pair[1]) * len(set(pair[1])))
colors = ["#c9d7e8", "#c8553d", "#e9b872"]  # rest, run, walk
figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(7, 4.2), sharex=True, layout="constrained")
top.plot(sequence, linewidth=0.9)
top.set(ylabel="features")
for axes, p, title in (
    (middle, alone.predict_proba(sequence), "each step alone"),
    (bottom, chain.predict_proba([sequence])[0], "in context"),
):
    axes.stackplot(range(len(p)), p.T, colors=colors, labels=chain.classes_)
    right = [list(chain.classes_).index(label) for label in labels]
    axes.scatter(range(len(p)), np.full(len(p), 1.06), c=np.array(colors)[right], s=6)
    axes.set(ylabel=title, yticks=[], ylim=(0, 1.12))
bottom.legend(frameon=False, ncols=3, fontsize="small", loc="lower right")
bottom.set_xlabel("step (the dots are the truth)")
plt.show()

chain.plot()
