"""
A Bayesian network: draws, answers, learning
============================================

A joint law of many variables is written as a graph: each variable has a law given its parents. From that alone
come draws, exact answers to questions, a test of independence, and the tables themselves, learned from rows.
"""

# %%
# Eight variables of a clinic
# ---------------------------
# The network of Lauritzen & Spiegelhalter (1988): a visit to Asia makes tuberculosis likelier, smoking makes lung
# cancer and bronchitis likelier, and an X-ray sees only whether one of the two lung diseases is there.

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.distributions import Normal

from benthic.samplers import BayesianNetwork, Given, NeuralConditional, Table

STATES = ["no", "yes"]
clinic = BayesianNetwork(
    {
        "asia": Table([0.99, 0.01], states=STATES),
        "smokes": Table([0.5, 0.5], states=STATES),
        "tuberculosis": Table([[0.99, 0.01], [0.95, 0.05]], given="asia", states=STATES),
        "cancer": Table([[0.99, 0.01], [0.9, 0.1]], given="smokes", states=STATES),
        "bronchitis": Table([[0.7, 0.3], [0.4, 0.6]], given="smokes", states=STATES),
        "either": Table([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], given=["tuberculosis", "cancer"], states=STATES),
        "x-ray": Table([[0.95, 0.05], [0.02, 0.98]], given="either", states=STATES),
        "breathless": Table(
            [[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.1, 0.9]]], given=["either", "bronchitis"], states=STATES
        ),
    }
)
seen = {"x-ray": "yes", "breathless": "yes"}
marginals = {name: clinic.posterior(name, seen) for name in clinic.order if name not in seen}
clinic.plot(marginals, observed=seen)

# %%
# Explaining away
# ---------------
# A positive X-ray raises the odds of both lung diseases; to learn that the patient was in Asia then lowers those of
# cancer. The graph says so before any number does: cancer and Asia are independent until something below both is
# observed.

print("cancer and asia independent?          ", clinic.d_separated("cancer", "asia"))
print("... and when the X-ray is known?      ", clinic.d_separated("cancer", "asia", "x-ray"))
for given in ({}, {"x-ray": "yes"}, {"x-ray": "yes", "asia": "yes"}):
    print(f"P(cancer | {given}) = {float(clinic.posterior('cancer', given)[1]):.4f}")
print(
    "most likely diagnosis:", clinic.decode({k: torch.tensor(v) for k, v in clinic.most_likely(seen).items()})["cancer"]
)

# %%
# Exact draws and weighted draws
# ------------------------------
# Given what was seen, draws come exactly, by summing variables out and sampling back. Likelihood weighting needs
# no sums: it draws from the top down and weighs by how likely the evidence was. Its error falls like one over the
# square root of the number of draws.

truth = float(marginals["cancer"][1])
sizes = np.unique(np.logspace(2, 4.5, 6).astype(int))
errors = {"exact draws": [], "weighted draws": []}
for n in sizes.tolist():
    exact, weighted = [], []
    for seed in range(10):
        exact.append(float(clinic.sample(n, given=seen, seed=seed)["cancer"].double().mean()))
        draws = clinic.likelihood_weighting(n, seen, seed=seed)
        weighted.append(draws.expect(lambda values: values["cancer"].double()).value)
    for name, values in zip(errors, (exact, weighted), strict=True):
        errors[name].append(np.sqrt(np.mean((np.array(values) - truth) ** 2)))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, values in errors.items():
    axes.loglog(sizes, values, marker="o", markersize=4, label=name)
axes.loglog(sizes, 0.5 / np.sqrt(sizes), color="0.7", linestyle="--", label="$1/\\sqrt{n}$")
axes.set(xlabel="draws", ylabel="error of P(cancer | seen)")
axes.legend(frameon=False)
plt.show()

# %%
# Tables from rows
# ----------------
# With complete rows the likelihood splits into one part for each table, and its maximum is shares of counts.

blank = {name: Table.empty(law.probs.shape, law.given, STATES) for name, law in clinic.nodes.items()}
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for n, color in ((100, "C1"), (10_000, "C0")):
    learned = BayesianNetwork(blank).fit(clinic.sample(n, seed=0), smoothing=0.5)
    pairs = [(law.probs.flatten(), learned.nodes[name].probs.flatten()) for name, law in clinic.nodes.items()]
    axes.scatter(*[torch.cat(side) for side in zip(*pairs, strict=True)], s=18, color=color, label=f"{n} rows")
axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, zorder=0)
axes.set(xlabel="entry of a true table", ylabel="learned entry")
axes.legend(frameon=False)
plt.show()

# %%
# A network in the network
# ------------------------
# A law may be any function of the parents that gives a distribution, a neural network too. Here the mean and the
# width of a measurement depend on a number and on a switch, and both are learned.

wave = BayesianNetwork(
    {
        "x": torch.distributions.Uniform(torch.tensor(-2.0), 2.0),
        "switch": Table([0.6, 0.4]),
        "y": Given(
            lambda x, s: Normal(torch.sin(3 * x) * (1 - s) + 2 * s, 0.1 + 0.15 * x.abs()), given=["x", "switch"]
        ),
    }
)
rows = wave.sample(3000, seed=0)
learner = Given(NeuralConditional([None, 2], hidden=(32, 32)), given=["x", "switch"])
learned = BayesianNetwork({**wave.nodes, "y": learner}).fit(rows, trainer={"epochs": 80, "verbose": False}, seed=0)

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
line = torch.linspace(-2, 2, 200)
for s, color in ((0, "C0"), (1, "C1")):
    chosen = rows["switch"] == s
    axes.scatter(rows["x"][chosen], rows["y"][chosen], s=3, color=color, alpha=0.3, linewidth=0)
    with torch.no_grad():
        law = learned.nodes["y"].law([line, torch.full((200,), s)])
    axes.plot(line, law.mean, color=color)
    axes.fill_between(line, law.mean - 2 * law.stddev, law.mean + 2 * law.stddev, color=color, alpha=0.2, linewidth=0)
axes.set(xlabel="x", ylabel="y", title="learned mean and two standard deviations")
plt.show()

# %%
# Seen the other way round, the learned law answers what the switch was.

print(f"P(switch is on | x = 0.5, y = 1.9) = {float(learned.posterior('switch', {'x': 0.5, 'y': 1.9})[1]):.3f}")
