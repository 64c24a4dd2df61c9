"""
Can these chains be trusted?
============================

A sampler always returns numbers. R-hat, effective sample sizes, ranks, divergences and energies tell whether they
stand for the law that was asked for; simulation-based calibration tells whether the sampler itself is right.
"""

# %%
# A run that worked
# -----------------
# Eight chains of a random walk on a normal pair of correlation 0.9. Scale and covariance are learned in warm-up. The
# table has an error (``mcse``) for every mean, and a sentence for everything that looks wrong: here there is none.

import torch

from benthic.samplers import HMC, Blocks, Gibbs, MetropolisHastings, RandomWalk, Target, calibrate, run

target = Target(
    lambda p: -(p["a"] ** 2 - 1.8 * p["a"] * p["b"] + p["b"] ** 2) / 0.38, {"a": 0.0, "b": 0.0}, batched=True
)
draws = run("random_walk", target, chains=8, draws=1500, warmup=500, seed=0)
print(draws.summary())
draws.plot("trace")

# %%
# Ranks of one chain's draws among all draws are spread evenly when the chains agree. The band is for independent
# draws, so of these every tenth is shown.

draws.thin(10).plot("rank")

# %%
# Chains that do not agree
# ------------------------
# Two modes far apart: a small step never crosses. Every trace alone looks fine; only together they tell.

modes = Target(
    lambda x: torch.logsumexp(-0.5 * (x - torch.tensor([-5.0, 5.0])) ** 2, 1),
    torch.zeros(1, dtype=torch.float64),
    batched=True,
)
start = torch.tensor([[-5.0], [-5.0], [5.0], [5.0]], dtype=torch.float64)
stuck = run(RandomWalk(modes, scale=1.0, adapt=False), draws=1000, warmup=50, start=start, seed=1)
print(stuck.summary())
stuck.plot("rank")

# %%
# A density that is no law
# ------------------------
# Without a prior, only the sum of ``a`` and ``b`` is held by the data; their difference walks away for ever.

improper = Target(lambda p: -0.5 * (p["a"] + p["b"] - 1) ** 2, {"a": 0.0, "b": 0.0}, batched=True)
away = run("random_walk", improper, chains=8, draws=1000, warmup=100, seed=0)
for sentence in away.summary().warnings:
    print("-", sentence)
away.plot("trace")

# %%
# A funnel
# --------
# The width of nine normal variables is itself unknown. Where it is small the law is too sharp for the step: such
# transitions diverge (red) and the neck of the funnel is missing.


def funnel(p):
    log_width = p["log_width"]
    inside = 0.5 * (p["x"] ** 2).sum(1) * torch.exp(-log_width) + 4.5 * log_width
    return -0.5 * (log_width / 3) ** 2 - inside


target = Target(funnel, {"log_width": 0.0, "x": torch.zeros(9, dtype=torch.float64)}, batched=True)
neck = run(HMC(target), chains=8, draws=300, warmup=150, seed=2)
print(neck.summary(names="log_width"))
neck.plot("pair", ["log_width", "x[0]"])

# %%
# The spread of energies is far wider than what one transition changes: the momentum cannot climb the funnel.

neck.plot("energy")

# %%
# The same model with standardized variables, z = x / width, is easy: no divergence, and all of the width.

target = Target(
    lambda p: -0.5 * ((p["log_width"] / 3) ** 2 + (p["z"] ** 2).sum(1)),
    {"log_width": 0.0, "z": torch.zeros(9, dtype=torch.float64)},
    batched=True,
)
standard = run(HMC(target), chains=8, draws=300, warmup=150, seed=2)
print(standard.summary(names="log_width"))

# %%
# Gibbs sampling, and how much its draws are worth
# ------------------------------------------------
# For a normal pair of correlation 0.95 each coordinate of a Gibbs sampler remembers 0.95² = 0.90 of itself, so 19
# draws are worth one.

from torch.distributions import Normal

width = (1 - 0.95**2) ** 0.5
kernel = Gibbs(
    {"a": lambda v, _: Normal(0.95 * v["b"], width), "b": lambda v, _: Normal(0.95 * v["a"], width)},
    {"a": 0.0, "b": 0.0},
)
pair = run(kernel, chains=100, draws=500, warmup=50, seed=0)
memory = (1 + 0.95**2) / (1 - 0.95**2)
print(f"expected {100 * 500 / memory:.0f}, found {float(pair.ess()['a']):.0f}")

# %%
# Is the sampler right? Simulation-based calibration
# --------------------------------------------------
# Draw a mean from its prior, data from the mean, and the posterior of the data: the rank of the true mean among its
# posterior draws is uniform. A lopsided proposal needs the ratio q(x|y) / q(y|x); with the ratio upside down the
# sampler runs just as smoothly, and is wrong.


def prior(count, generator):
    return torch.randn(count, generator=generator, dtype=torch.float64)


def simulate(mean, generator):
    return mean + torch.randn(len(mean), generator=generator, dtype=torch.float64)


def sampler(sign):
    def propose(x, generator):
        step = 0.2 + torch.randn(x.shape, generator=generator, dtype=torch.float64)
        log_forward = -0.5 * (step - 0.2) ** 2 + 0.5 * (-step - 0.2) ** 2
        return x + step, sign * log_forward.sum(1)

    def infer(data, seed):  # one chain a data set, all at once
        posterior = Blocks(torch.tensor(0.0, dtype=torch.float64), lambda mean: -((mean - data / 2) ** 2))
        kernel = MetropolisHastings(posterior, propose)
        return run(kernel, chains=len(data), draws=640, warmup=100, seed=seed)

    return infer


right = calibrate(prior, simulate, sampler(+1), simulations=500, together=True, seed=0)
wrong = calibrate(prior, simulate, sampler(-1), simulations=500, together=True, seed=0)
print("ratio as it should be:", right.summary(), sep="\n")
print("ratio upside down:", wrong.summary(), sep="\n")
right.plot()

# %%
# The gray band holds the whole curve in 95 of 100 right samplers. Upside down, the curve leaves it at once.

wrong.plot()
