"""
Gradient boosting: step by step down a loss
===========================================

Boosting adds small trees one after another. Each is fitted to the slope of the loss at the sum so far, and the value
of each of its leaves is the best step for the rows that end there. This example watches the sum grow, stops it in
time, and changes the loss.
"""

# %%
# The sum grows
# -------------
# ``staged_predict`` gives the answer after every round. A few trees give steps; a few dozen follow the curve; hundreds
# begin to follow the noise.

import matplotlib.pyplot as plt
import numpy as np
import torch

import benthic

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 400))
y = np.sin(x) * x / 3 + rng.normal(scale=0.2 + 0.12 * x)
grid = np.linspace(0, 10, 800)[:, None]

model = benthic.GradientBoostingRegressor(max_iter=400, max_leaf_nodes=5, min_samples_leaf=8).fit(x[:, None], y)
stages = list(model.staged_predict(grid))
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for ax, rounds in zip(axes, (3, 30, 400), strict=True):
    ax.scatter(x, y, s=6, color="0.7")
    ax.plot(grid, stages[rounds - 1], color="#c8553d")
    ax.set_title(f"{rounds} rounds")
plt.show()

# %%
# Stopping in time
# ----------------
# With ``early_stopping`` some rows are held out. The training loss falls on and on, the held-out loss turns; the rounds
# up to its lowest point are kept.

early = benthic.GradientBoostingRegressor(
    max_iter=400, max_leaf_nodes=5, min_samples_leaf=8, early_stopping=True, validation_fraction=0.3, random_state=1
).fit(x[:, None], y)
print(early.summary())
early.plot()

# %%
# Other losses, other answers
# ---------------------------
# The squared error asks for the mean. Quantile losses ask for the level below which a share of the targets lies, and
# two of them make a band. Any torch function of score and target will do: the last one is an expectile, which weighs
# errors upward nine times as much as downward.


def expectile(raw, y):
    error = y - raw
    return torch.where(error > 0, 0.9, 0.1) * error**2


settings = {"max_iter": 60, "max_leaf_nodes": 5, "min_samples_leaf": 20}
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.scatter(x, y, s=6, color="0.7")
low, high = (
    benthic.GradientBoostingRegressor("quantile", quantile=level, **settings).fit(x[:, None], y).predict(grid)
    for level in (0.05, 0.95)
)
ax.fill_between(grid[:, 0], low, high, color="#3b6fb5", alpha=0.2, label="5 % to 95 %")
for loss, color, name in (("absolute_error", "#3b6fb5", "median"), (expectile, "#c8553d", "0.9 expectile")):
    ax.plot(
        grid, benthic.GradientBoostingRegressor(loss, **settings).fit(x[:, None], y).predict(grid), color, label=name
    )
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Knowing that it must rise
# -------------------------
# Where the answer must not fall as a column grows, say so: ``monotonic_cst`` keeps every tree to it, and wiggles that
# were noise disappear.

dose = rng.uniform(0, 1, 250)
effect = dose / (dose + 0.2) + 0.15 * rng.normal(size=250)
line = np.linspace(0, 1, 400)[:, None]
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.scatter(dose, effect, s=8, color="0.7")
for signs, color, name in ((None, "#3b6fb5", "free"), ([1], "#c8553d", "must rise")):
    fitted = benthic.GradientBoostingRegressor(monotonic_cst=signs, max_iter=60, min_samples_leaf=5)
    ax.plot(line, fitted.fit(dose[:, None], effect).predict(line), color, label=name)
ax.set(xlabel="dose", ylabel="effect")
ax.legend(frameon=False)
plt.show()
