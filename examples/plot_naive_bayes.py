"""
Naive Bayes: one law for each feature
=====================================

Naive Bayes asks how likely each feature of a row is in each class, and multiplies. It learns by counting, so it
is fast, adds up over parts of the data, passes over missing values, and, where the features have a density, can
make new rows too.
"""

# %%
# Normal features
# ---------------
# Each curve is the law of one measurement in one class, as high as the class is frequent; gray is the data.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine

import benthic

frame, cultivar = load_wine(return_X_y=True, as_frame=True)
model = benthic.GaussianNB(random_state=0).fit(frame, cultivar)
print(model.summary())
picture = model.plot(frame)
picture

# %%
# Missing values are left out of the product
# ------------------------------------------
# No imputation is needed, in training or later: a feature that is not there says nothing. Accuracy falls slowly
# as more and more is hidden from both.

X, y = frame.to_numpy(), cultivar.to_numpy()
rng = np.random.default_rng(0)
held = np.arange(len(X)) % 2 == 0
shares, scores = np.linspace(0, 0.9, 10), []
for share in shares:
    holed = np.where(rng.random((20, *X.shape)) < share, np.nan, X)
    scores.append([benthic.GaussianNB().fit(rows[~held], y[~held]).score(rows[held], y[held]) for rows in holed])
scores = np.array(scores)

figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
axes.errorbar(shares, scores.mean(1), scores.std(1), color="#3b6fb5", capsize=3)
axes.axhline(np.bincount(y).max() / len(y), color="0.5", linestyle="--", linewidth=1)
axes.text(0.0, 0.42, "always the largest class", color="0.4", fontsize="small")
axes.set(xlabel="share of values missing", ylabel="accuracy on held-out wines", ylim=(0.35, 1.02))
plt.show()

# %%
# Counts and switches
# -------------------
# The pixels of digits as amounts of ink (multinomial) or as on and off (Bernoulli). The chance of ink is what
# the model has learned about each digit; the features are far from independent, and it works all the same.

images, digits = load_digits(return_X_y=True)
train = np.arange(len(images)) % 2 == 0
figure, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for row, model in zip(axes, (benthic.MultinomialNB(), benthic.BernoulliNB(binarize=7.0)), strict=True):
    model.fit(images[train], digits[train])
    print(f"{type(model).__name__}: accuracy {model.score(images[~train], digits[~train]):.3f}")
    for ax, table in zip(row, np.exp(model.feature_log_prob_), strict=True):
        ax.imshow(table.reshape(8, 8), cmap="Greys")
        ax.set_axis_off()
plt.show()

# %%
# Categories
# ----------
# Columns of categories are counted by name; the bars are smoothed shares. A value that was never seen is refused
# by name in a frame, and an empty cell is passed over.

sky = pd.Categorical.from_codes([2, 2, 0, 1, 1, 1, 0, 2, 2, 1, 2, 0, 0, 1], ["overcast", "rain", "sunny"])
air = pd.Categorical.from_codes([0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0], ["humid", "normal"])
wind = np.array([0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1], dtype=bool)
play = pd.DataFrame({"sky": sky, "air": air, "wind": wind})
tennis = np.array(["no", "yes"])[[0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0]]
model = benthic.CategoricalNB().fit(play, tennis)
print(model.predict_proba(play.iloc[[1]]).round(3), model.classes_)
picture = model.plot()
picture

# %%
# A density too
# -------------
# With normal features the model knows how likely a row is in itself, and draws new ones: here wines of a class.

wine = benthic.GaussianNB(random_state=0).fit(frame, cultivar)
print(f"mean log-likelihood {wine.likelihood(frame).mean():.2f} nats")
drawn = wine.sample(300, given=[0], seed=1)
figure, axes = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
axes.scatter(drawn["alcohol"], drawn["proline"], s=8, color="0.75", label="drawn, class 0")
axes.scatter(frame["alcohol"][cultivar == 0], frame["proline"][cultivar == 0], s=14, color="#c8553d", label="real")
axes.set(xlabel="alcohol", ylabel="proline")
axes.legend(frameon=False)
plt.show()
