"""
Distances learned from data: one for all places, or one for each
================================================================

What is near depends on what one asks. Labels can teach a distance in which rows of one class are close; and data alone
teach one that is short where they lie, so that the shortest way between two points follows them.
"""

# %%
# A distance learned from labels
# ------------------------------
# Two columns of noise hide the two that matter. Nearest neighbors stumble over the noise; after the learned map they
# do not.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

import benthic
from benthic.leaderboard import cross_validate
from benthic.manifold import LocalMetric

rng = np.random.default_rng(0)
signal = rng.normal(size=(400, 2))
y = (signal[:, 0] * signal[:, 1] > 0).astype(int)
X = np.column_stack([signal, 5 * rng.normal(size=(400, 2))])
models = {
    "neighbors": benthic.KNeighborsClassifier(5),
    "after the learned map": make_pipeline(
        benthic.MahalanobisMetric(2, max_iter=300, random_state=0), benthic.KNeighborsClassifier(5)
    ),
}
for name, model in models.items():
    print(f"{name:22} accuracy {cross_validate(model, X, y).estimate()}")

metric = benthic.MahalanobisMetric(2, max_iter=300, random_state=0).fit(X, y)
print((metric.metric_ / np.abs(metric.metric_).max()).round(3))
metric.plot(X, y)

# %%
# A distance that changes from place to place
# -------------------------------------------
# Around every point the local spread of the data says what is near there. The shortest way (orange) keeps to the data;
# the straight line crosses the empty middle and is much longer under this metric.

t = np.linspace(0, np.pi, 150)
arc = np.column_stack([np.cos(t), np.sin(t)]) + 0.04 * rng.normal(size=(150, 2))
local = LocalMetric(arc, sigma=0.15)
way = local.geodesic(arc[0], arc[-1])
print(f"length {way.length:.1f}, straight {way.straight:.1f}")
local.plot([way, np.stack([arc[0], arc[-1]])])

# %%
# Shooting
# --------
# A way is decided by where it starts and how fast it leaves: the solver of differential equations follows it.

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.scatter(*arc.T, s=5, color="0.6")
for angle in np.linspace(0.2, np.pi - 0.2, 9):
    points = local.shoot(arc[75], 0.8 * np.array([np.cos(angle), -np.sin(angle)]))
    axes.plot(*points.T, linewidth=1)
axes.set(title="ways that leave one point", aspect="equal")
plt.show()
