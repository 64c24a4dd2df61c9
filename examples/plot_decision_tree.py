"""
Decision trees: questions, rules and pruning
============================================

A decision tree asks one question after another and ends in an answer that a person can read. This example grows
the classic tree of the weather data by C4.5, cuts a CART tree of tumors to size, and follows a curve by steps.
"""

# %%
# Should we play?
# ---------------
# Fourteen days, four attributes (Quinlan, 1986). C4.5 opens a branch for each category and chooses by gain ratio:
# bits of information about the answer, for each bit that the split itself takes to tell.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import benthic

days = """sunny hot high no no|sunny hot high yes no|overcast hot high no yes|rain mild high no yes
rain cool normal no yes|rain cool normal yes no|overcast cool normal yes yes|sunny mild high no no
sunny cool normal no yes|rain mild normal no yes|sunny mild normal yes yes|overcast mild high yes yes
overcast hot normal no yes|rain mild high yes no"""
names = ["outlook", "temperature", "humidity", "windy", "play"]
weather = pd.DataFrame([day.split() for day in days.replace("\n", "|").split("|")], columns=names)
X, y = weather.drop(columns="play"), weather["play"]

model = benthic.DecisionTreeClassifier(algorithm="c4.5").fit(X, y)
for name, found in model.attribute_gains_.items():
    print(f"{name:12} gain {found['gain']:.3f}   gain ratio {found['gain_ratio']:.3f}")
model.plot()

# %%
# The same tree as rules
# ----------------------

print("\n".join(model.rules()))

# %%
# A day of unknown outlook goes down every branch, in the shares that the training days took.

unknown = pd.DataFrame({"outlook": [None], "temperature": ["mild"], "humidity": ["high"], "windy": ["no"]})
print(dict(zip(model.classes_, model.predict_proba(unknown)[0].round(3), strict=True)))

# %%
# How large should a tree be?
# ---------------------------
# Grown to the end a tree remembers its rows. Cost-complexity pruning cuts the branches that pay least for their
# leaves; each value of alpha has its own best subtree, and cross-validation chooses among them.

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score

tumors = load_breast_cancer(as_frame=True)
rows, kind = tumors.data, tumors.target_names[tumors.target]
whole = benthic.DecisionTreeClassifier(random_state=0)
path = whole.cost_complexity_pruning_path(rows, kind)
alphas = np.unique(path.ccp_alphas)[:-1]
scores = [cross_val_score(whole.set_params(ccp_alpha=a), rows, kind, cv=10) for a in alphas]
mean, error = np.mean(scores, axis=1), np.std(scores, axis=1) / np.sqrt(10)
leaves = [whole.set_params(ccp_alpha=a).fit(rows, kind).get_n_leaves() for a in alphas]

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.errorbar(leaves, mean, error, marker="o", markersize=4, capsize=2, color="#3b6fb5")
axes.set(xlabel="leaves", ylabel="accuracy in 10 folds")
plt.show()

# %%
# The smallest tree within one standard error of the best is easy to read.

good = np.flatnonzero(mean >= mean.max() - error[mean.argmax()]).max()
small = benthic.DecisionTreeClassifier(ccp_alpha=alphas[good]).fit(rows, kind)
print(f"{small.get_n_leaves()} leaves, accuracy {mean[good]:.3f} ± {error[good]:.3f}")
small.plot()

# %%
# Steps along a curve
# -------------------
# For numbers each leaf answers with the mean of its rows, so the curve becomes a staircase: too few steps miss its
# shape, too many follow the noise.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, 120))
noisy = np.sin(x) + 0.25 * rng.normal(size=120)
line = np.linspace(0, 6, 600)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.9), layout="constrained", sharey=True)
for ax, most in zip(axes, (3, 8, 120), strict=True):
    tree = benthic.DecisionTreeRegressor(max_leaf_nodes=most).fit(x[:, None], noisy)
    ax.scatter(x, noisy, s=8, color="0.6")
    ax.plot(line, np.sin(line), color="0.3", linewidth=1, linestyle=":")
    ax.plot(line, tree.predict(line[:, None]), color="#c8553d", linewidth=1.6)
    ax.set(title=f"{tree.get_n_leaves()} leaves", xlabel="x")
plt.show()
