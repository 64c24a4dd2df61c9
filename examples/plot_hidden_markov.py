"""
Hidden Markov models: states nobody sees
========================================

A hidden Markov model explains a sequence by a few states that take turns and leave their mark on what is measured.
From the measurements alone it learns the states, how long they last and what follows what.
"""

# %%
# A diver's depth and speed
# -------------------------
# An animal rests at the surface, travels, and dives. A tag records two numbers a minute; some minutes are lost.

import matplotlib.pyplot as plt
import numpy as np

import benthic

rng = np.random.default_rng(0)
truth = np.array([[0.92, 0.06, 0.02], [0.10, 0.85, 0.05], [0.04, 0.06, 0.90]])
levels = np.array([[0.5, 0.2], [1.5, 2.2], [6.0, 1.0]])  # depth, speed
spread = np.array([[0.4, 0.2], [0.6, 0.6], [2.0, 0.5]])

days = []
for minutes in rng.integers(150, 300, size=20):
    states = [0]
    for _ in range(minutes - 1):
        states.append(rng.choice(3, p=truth[states[-1]]))
    record = levels[states] + spread[states] * rng.normal(size=(minutes, 2))
    record[rng.random(minutes) < 0.1] = np.nan  # the tag was silent
    days.append(record)

model = benthic.HiddenMarkovModel(3, covariance_type="diag", random_state=0).fit(days)
print(model.summary())
model.plot()

# %%
# Where was it?
# -------------
# Given a day, the model says how probable each state was at each minute, also where nothing was recorded.

model.plot(days, sequence=0)

# %%
# EM never loses ground
# ---------------------
# Each pass makes the data more likely, or ends.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(model.log_likelihoods_, marker="o", markersize=3)
axes.set(xlabel="pass", ylabel="log-likelihood")
plt.show()

# %%
# How many states?
# ----------------
# More states always fit better; the Bayesian information criterion asks whether they pay.

choice = (
    benthic.HiddenMarkovModel("bic", max_states=5, covariance_type="diag", n_init=2, random_state=0).fit(days).choice_
)
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(choice["n_states"], choice["bic"], marker="o")
axes.set(xlabel="states", ylabel="BIC", xticks=choice["n_states"])
plt.show()

# %%
# Filling what is missing, and going on
# -------------------------------------
# Samples can be given a sequence with gaps. Steps that follow the last one are gaps too: that is a forecast.

known = days[1][:60]
future = np.vstack([known, np.full((30, 2), np.nan)])
drawn = np.stack(model.sample(200, given=[future], seed=0))[:, :, 0]
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
low, middle, high = np.quantile(drawn, [0.1, 0.5, 0.9], axis=0)
axes.fill_between(range(90), low, high, color="C0", alpha=0.25, label="80 % of samples")
axes.plot(middle, color="C0", linewidth=1, label="median")
axes.plot(known[:, 0], ".", color="black", markersize=4, label="recorded")
axes.axvline(59.5, color="0.6", linewidth=0.8)
axes.set(xlabel="minute", ylabel="depth")
axes.legend(fontsize=8)
plt.show()

# %%
# Symbols: islands in a genome
# ----------------------------
# States may emit symbols instead of numbers. Here two kinds of stretches of DNA differ in how often they use C and G.

inside, path = False, []
for _ in range(4000):
    inside = rng.random() < (0.995 if inside else 0.003)
    path.append(int(inside))
table = np.array([[0.32, 0.18, 0.18, 0.32], [0.15, 0.35, 0.35, 0.15]])
dna = "".join("ACGT"[rng.choice(4, p=table[state])] for state in path)
islands = benthic.HiddenMarkovModel(2, emission_prior=2.0, random_state=0).fit([dna])
rich = int(islands.emissions_[:, 1].argmax())
figure, axes = plt.subplots(figsize=(8, 2.4), layout="constrained")
axes.fill_between(range(4000), path, color="0.85", step="mid", label="truth")
axes.plot(islands.predict_proba([dna])[0][:, rich], color="C0", linewidth=0.9, label="probability of an island")
axes.set(xlabel="position", ylim=(0, 1.05))
axes.legend(fontsize=8, loc="center right")
plt.show()

# %%
# A chain without hidden states
# -----------------------------
# A Markov model's memory is the last few symbols themselves. Learned from a text, it writes.

text = (
    "the deep sea is the largest part of the living world and the least known most of it is cold dark and under great "
    "pressure animals of the sea floor feed on what falls from above or on the gases that rise from vents in the rock "
    "some make their own light some wait for years for the next meal others move over the mud in slow herds and leave "
    "tracks that last for months the water there is old it sank at the poles and will come up again in a thousand years"
).replace(" ", "_")
for order in (1, 2, 4):
    writer = benthic.MarkovModel(order).fit([text])
    print(f"order {order}:", writer.sample(1, length=70, seed=2)[0].replace("_", " "))

# %%
# The table of an order-1 model shows what follows what.

benthic.MarkovModel(1).fit([text]).plot()
