"""
What metrics of generated samples see
=====================================

Four models of the same data: a good one, a blurred one, one that collapsed onto a few places, and one that hands back
its training rows. No single number tells them all apart; together they do, and each comes with its standard error.
"""

# %%
# Four models
# -----------
# The data are points around a ring of eight spots. Some rows train the models, others are held out to judge them.

import matplotlib.pyplot as plt
import numpy as np

from benthic import metrics
from benthic.leaderboard import classifier_two_sample

rng = np.random.default_rng(0)


def ring(n, width=0.15, spots=8):
    """n points around so many of the eight spots."""
    angle = 2 * np.pi * rng.integers(spots, size=n) / 8
    return np.stack([np.cos(angle), np.sin(angle)], 1) + width * rng.normal(size=(n, 2))


train, held_out = ring(600), ring(600)
models = {
    "good": ring(600),
    "blurred": ring(600, width=0.35),
    "collapsed": ring(600, spots=3),
    "memorizing": train[rng.integers(600, size=600)] + 0.005 * rng.normal(size=(600, 2)),
}

# %%
# All metrics
# -----------
# Every metric is a function of real and generated rows; ``features=`` would map both first, for instance images by
# ``metrics.RandomConvolution()``. What to expect of a perfect model is measured, not guessed: the first row of the
# table compares two real samples.

columns = ("Fréchet", "kernel", "sliced W", "precision", "recall", "density", "coverage", "told apart")


def judged(made):
    """A row of the table: estimates by metric."""
    overlap = metrics.prdc(held_out, made)
    return dict(
        zip(
            columns,
            (
                metrics.frechet_distance(held_out, made, infinite=True),
                metrics.kernel_distance(held_out, made),
                metrics.sliced_wasserstein(held_out, made),
                *overlap,
                classifier_two_sample(held_out, made).accuracy,
            ),
            strict=True,
        )
    )


found = {name: judged(made) for name, made in {"real rows": ring(600), **models}.items()}
print("".join(f"{name:>19}" for name in ("", *columns)))
for name, row in found.items():
    print(f"{name:>19}" + "".join(f"{row[column]!s:>19}" for column in columns))

# %%
# The Fréchet distance, which knows means and covariances only, hardly sees the blur; precision and density do. Recall
# and coverage see the collapse.
#
# Copies
# ------
# The memorizing model looks perfect: its rows *are* real. Distances to training rows against distances to rows it never
# saw give it away.

copies = {name: metrics.memorization(train, held_out, made) for name, made in models.items()}
for name, memory in copies.items():
    authentic = metrics.authenticity(train, models[name])
    print(f"{name:>12}: distance ratio {memory.ratio}, p = {memory.p_value:.3f}, authentic {authentic}")

# %%
# Pictures
# --------
# Samples over held-out rows, the plane of precision and recall, and the plane of the Fréchet distance and
# the distance ratio, where the copies fall out of line.

colors = {"good": "#1b7837", "blurred": "#2166ac", "collapsed": "#b2182b", "memorizing": "#b35806"}
layout = [[*colors], ["plane", "plane", "beside", "beside"]]
figure, axes = plt.subplot_mosaic(layout, figsize=(11, 6.4), layout="constrained")
for name, made in models.items():
    axes[name].scatter(*held_out.T, s=2, color="#bbbbbb")
    axes[name].scatter(*made.T, s=2, color=colors[name])
    axes[name].set(title=name, xticks=[], yticks=[], aspect="equal", xlim=(-2.1, 2.1), ylim=(-2.1, 2.1))

for name, color in colors.items():
    row, ratio = found[name], copies[name].ratio
    style = {"fmt": "o", "color": color, "capsize": 3, "label": name}
    recall, precision, distance = row["recall"], row["precision"], row["Fréchet"]
    axes["plane"].errorbar(recall.value, precision.value, 2 * precision.stderr, 2 * recall.stderr, **style)
    axes["beside"].errorbar(distance.value, ratio.value, 2 * ratio.stderr, 2 * distance.stderr, **style)
axes["plane"].set(xlabel="recall", ylabel="precision", title="fidelity and diversity (bars: two standard errors)")
axes["plane"].legend(loc="lower left")
axes["beside"].axhline(1, color="#888888", lw=0.8, ls=":")
axes["beside"].set(
    xlabel="squared Fréchet distance", ylabel="distance to train / to held out", title="quality and memory"
)
plt.show()
