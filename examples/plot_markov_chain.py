"""
Markov chains: classes, equilibrium, forgetting
===============================================

A Markov chain is a matrix whose rows are laws. From the matrix alone follow the states that belong together, the
law the chain settles to, how fast it forgets where it began, and where it ends.
"""

# %%
# Weather
# -------
# Tomorrow depends on today. An arrow is a transition with its probability.

import numpy as np
import scipy.sparse

from benthic.samplers import MarkovChain

weather = MarkovChain([[0.9, 0.1, 0.0], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4]], states=["dry", "mild", "wet"])
print(weather.summary())
weather.plot()

# %%
# Wherever it starts, the law comes closer to the stationary one by the same factor every day.

weather.plot_convergence(start="wet")

# %%
# Learning it from a diary
# ------------------------
# Counting transitions gives back the matrix.

diary = weather.sample(20, 365, seed=0)
print(weather.named(diary[0, :8]))
learned = MarkovChain.from_sequences(weather.named(diary))
print(learned.matrix.round(decimals=3))

# %%
# A gambler
# ---------
# With nothing left, or with six coins, the game is over: two closed classes, and a transient one between them.
# There is no single limit here; the question is where the gambler ends, and after how long.

n, p = 6, 0.48
P = np.diag(np.full(n, p), 1) + np.diag(np.full(n, 1 - p), -1)
P[0], P[n] = np.eye(n + 1)[0], np.eye(n + 1)[n]
gambler = MarkovChain(P)
print("wins from each start: ", gambler.hitting_probabilities(n).numpy().round(3))
print("rounds from each start:", gambler.hitting_times([0, n]).numpy().round(2))
gambler.plot()

# %%
# Two urns
# --------
# Ehrenfest's model of diffusion: one of eight balls, picked at random, changes its urn. The chain has period two,
# so its law swings for ever; if it sometimes waits, it settles to the binomial law.

balls = 8
i = np.arange(balls)
urns = MarkovChain(np.diag((balls - i) / balls, 1) + np.diag((i + 1) / balls, -1))
print("period", urns.period, "| reversible", urns.reversible)
urns.lazy().plot_convergence(start=0)

# %%
# A hundred thousand states
# -------------------------
# A walk on a square of 316 by 316 points with random weights on its edges. Its law is known, each point by the weight
# of its edges, so the error can be seen: multigrid finds the law to the last digits although the walk itself would
# need some hundred thousand steps to mix.

m = 316
line = scipy.sparse.diags([np.ones(m - 1)], [1])
edges = (scipy.sparse.kron(scipy.sparse.eye(m), line) + scipy.sparse.kron(line, scipy.sparse.eye(m))).tocsr()
edges.data = np.random.default_rng(0).uniform(0.05, 1, edges.nnz)
weights = edges + edges.T
degree = np.asarray(weights.sum(1)).ravel()
walk = MarkovChain(scipy.sparse.csr_matrix(weights.multiply(1 / degree[:, None])))
report = walk.stationary_report()
exact = degree / degree.sum()
print(f"by {report.method}, residual {report.residual:.1e}, estimated error {report.error:.1e}")
print(f"true error {0.5 * np.abs(report.law.numpy() - exact).sum():.1e}")
