"""
How good is a model, and how well do we know?
=============================================

Every number here comes with its error: over the rows judged, and over the rows the model happened to be fitted on.
"""

# %%
# One table, several questions
# ----------------------------
# Two classifiers of tumors are judged on rows that they were not fitted on. The confusion matrix counts right and
# wrong; precision, recall and the rest are read off it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benthic import leaderboard, metrics

bunch = load_breast_cancer()
X, y = bunch.data[:, :10], bunch.target_names[bunch.target]
models = {
    "naive Bayes": GaussianNB(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
}
tables = {name: leaderboard.cross_predict(model, X, y, method="predict_proba") for name, model in models.items()}
classes = np.unique(y)
answers = {name: classes[table.argmax(1)] for name, table in tables.items()}
print(metrics.class_report(y, answers["naive Bayes"]))
for name, answer in answers.items():
    found = metrics.matthews(y, answer), metrics.balanced_accuracy(y, answer)
    print(f"{name:12} Matthews {found[0]}, balanced accuracy {found[1]}")
metrics.confusion_matrix(y, answers["naive Bayes"]).plot(title="naive Bayes")

# %%
# Ranking
# -------
# A threshold turns scores into answers. The curves show all thresholds at once; rows of equal score pass together.

sick = {name: table[:, list(classes).index("malignant")] for name, table in tables.items()}
metrics.draw_roc({name: metrics.roc_curve(y, s, positive="malignant") for name, s in sick.items()})

# %%
# Where the positive class is rare, precision against recall says more.

metrics.draw_precision_recall(
    {name: metrics.precision_recall_curve(y, s, positive="malignant") for name, s in sick.items()}
)

# %%
# Calibration
# -----------
# Naive Bayes ranks well but counts correlated columns again and again, so it is far too sure of itself.

metrics.draw_calibration({name: metrics.calibration_curve(y, s, positive="malignant") for name, s in sick.items()})

# %%
# Honest error bars
# -----------------
# The fits of a cross-validation share most of their rows, so their scores are not independent. The interval drawn here
# is corrected for that (Nadeau & Bengio, 2003); gray points are the single fits.

found = {name: leaderboard.cross_validate(model, X, y, k=5, repeats=3) for name, model in models.items()}
print(found["logistic"].summary())
leaderboard.draw_scores(found, "accuracy")

# %%
# Is one better, or only luckier?

print(metrics.mcnemar(y, answers["logistic"], answers["naive Bayes"]))
print(leaderboard.compare_pair(*reversed(models.values()), X, y, scoring="log_loss", k=5, repeats=3))

# %%
# More rows?
# ----------
# Where the two lines of a model meet, more rows help no more.

curves = {
    name: leaderboard.learning_curve(model, X, y, sizes=[15, 30, 60, 120, 240, 455], scoring="log_loss")
    for name, model in models.items()
}
figure = leaderboard.draw_learning_curves(curves)
figure.axes[0].set_ylim(0, 1.6)
figure

# %%
# Settings chosen inside, judged outside
# --------------------------------------
# The best of many settings owes part of its score to luck. Nested folds judge the choice on rows it never saw.

nested = leaderboard.nested_cross_validate(
    KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9, 15]}, X, y, scoring="accuracy", k=5, inner=4
)
print(f"accuracy {nested.estimate()}; the winners' own scores flatter them by {nested.optimism:.3f}")
print("chosen:", [settings["n_neighbors"] for settings in nested.chosen])

# %%
# Why does it err?
# ----------------
# With a law that we know, training sets can be drawn again and again. Few neighbors follow the noise (variance), many
# cannot follow the curve (bias), and the gray part nobody can predict.

rows = np.linspace(-1, 1, 80)[:, None]


def curve(x):
    return np.sin(4 * x[:, 0])


def draw(generator):
    x = generator.uniform(-1, 1, (60, 1))
    return x, curve(x) + 0.4 * generator.normal(size=60)


parts = {
    k: leaderboard.bias_variance(KNeighborsRegressor(k), draw, None, rows, truth=curve(rows), noise=0.16, rounds=60)
    for k in (1, 2, 4, 8, 16, 32)
}
print(parts[8].summary())
leaderboard.draw_bias_variance(parts, xlabel="neighbors")

# %%
# On real rows the training sets are resampled. Noise is then part of the bias, and for 0-1 loss variance can help:
# where the main answer is wrong, a fit that differs from it may be right.

parts = {k: leaderboard.bias_variance(KNeighborsClassifier(k), X, y, rounds=30, seed=1) for k in (1, 5, 25, 125)}
leaderboard.draw_bias_variance(parts, xlabel="neighbors")

# %%
# Intervals
# ---------
# A predictive law is judged by what its intervals cover, how wide they are, and by a score that weighs both.

rng = np.random.default_rng(0)
truth = rng.normal(size=2000)
widths = np.linspace(0.4, 2.5, 25)
ones = np.ones(2000)
covered = [metrics.interval_coverage(truth, -1.645 * w * ones, 1.645 * w * ones).value for w in widths]
crps = np.array([metrics.crps_gaussian(truth, 0 * ones, w * ones) for w in widths])

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3), layout="constrained")
left.plot(widths, covered)
left.axhline(0.9, color="0.7", linestyle="--")
left.set(xlabel="predicted / true standard deviation", ylabel="coverage of 90 % intervals")
right.plot(widths, crps[:, 0])
right.fill_between(widths, crps[:, 0] - crps[:, 1], crps[:, 0] + crps[:, 1], alpha=0.2, linewidth=0)
right.axvline(1.0, color="0.7", linestyle="--")
right.set(xlabel="predicted / true standard deviation", ylabel="CRPS (less is better)")
plt.show()
