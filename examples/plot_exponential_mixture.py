"""
A mixture of anything: counts, shares, yes and no
=================================================

A component of this mixture is a product of exponential families, one a column, so one table may hold counts,
waiting times, shares and yes-or-no answers. EM is the same as for Gaussians; only the family changes.
"""

# %%
# Two kinds of customers
# ----------------------
# Visits are counts, the time of a visit is positive, the share spent on food lies between 0 and 1, and a
# customer has a card or has none. Nobody says who is of which kind.

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
n = 1500
kind = rng.random(n) < 0.35
X = np.column_stack(
    [
        np.where(kind, rng.poisson(12, n), rng.poisson(4, n)),
        np.where(kind, rng.gamma(2.0, 6.0, n), rng.gamma(8.0, 4.0, n)),
        np.where(kind, rng.beta(8, 2, n), rng.beta(2, 3, n)),
        np.where(kind, rng.random(n) < 0.9, rng.random(n) < 0.3),
    ]
).astype(float)
names = ("visits", "minutes", "share of food", "card")

model = benthic.ExponentialFamilyMixture(
    2, family=["poisson", "gamma", "beta", "bernoulli"], random_state=0, n_init=3
).fit(X)
print(model.summary())
found = model.predict(X)
agreement = max(np.mean(found == kind), np.mean(found != kind))
print(f"rows put with their own kind: {agreement:.1%}")

# %%
# Each column has its own law
# ---------------------------
# Bars are the table, points are as many rows drawn from the mixture.

drawn = model.sample(n, seed=1)
figure, four = plt.subplots(2, 2, figsize=(7.5, 5), layout="constrained")
for column, axes in enumerate(four.flat):
    whole = column in (0, 3)
    bins = np.arange(X[:, column].max() + 2) - 0.5 if whole else np.linspace(0, X[:, column].max(), 30)
    axes.hist(X[:, column], bins, color="0.8", label="table")
    heights, _ = np.histogram(drawn[:, column], bins)
    axes.plot((bins[:-1] + bins[1:]) / 2, heights, "o", color="C1", markersize=4, label="drawn")
    axes.set(title=names[column])
four[0, 0].legend(frameon=False)
plt.show()

# %%
# How many kinds?
# ---------------
# The Bayesian information criterion weighs likelihood against the number of parameters; lower is better.

counts = range(1, 6)
scores = [
    benthic.ExponentialFamilyMixture(k, family=["poisson", "gamma", "beta", "bernoulli"], random_state=0, n_init=3)
    .fit(X)
    .bic(X)
    for k in counts
]
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(counts, scores, marker="o")
axes.set(xlabel="components", ylabel="BIC", xticks=list(counts))
plt.show()

# %%
# What a gap says
# ---------------
# Missing values are left out of the product, which is exact. A customer whose visits and card are known has a
# conditional law for the rest.

given = np.array([[14.0, np.nan, np.nan, 1.0]])
possible = model.sample(2000, given=given, seed=0)
anyone = model.sample(2000, seed=0)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
bins = np.linspace(0, 1, 40)
axes.hist(anyone[:, 2], bins, density=True, color="0.8", label="any customer")
axes.hist(possible[:, 2], bins, density=True, histtype="step", color="C1", label="14 visits, has a card")
axes.set(xlabel="share of food", ylabel="density")
axes.legend(frameon=False)
plt.show()
