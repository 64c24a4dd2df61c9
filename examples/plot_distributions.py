"""
Distributions: what normal laws keep, directions, shares, mixtures
==================================================================

Every law here is a ``torch.distributions.Distribution``, so it has ``log_prob`` and ``sample``, and gradients
flow through it. This page shows what is added.
"""

# %%
# What stays normal
# -----------------
# Fix one coordinate of a normal vector and the other is normal again, with a smaller variance. Multiply two normal
# densities and the product, once normalized, is normal: this is how two measurements combine.

import matplotlib.pyplot as plt
import torch

from benthic.distributions import (
    Beta,
    Dirichlet,
    Mixture,
    MultivariateNormal,
    Normal,
    StudentT,
    VonMisesFisher,
    beta_posterior,
    dirichlet_posterior,
    draw,
    mle,
)

joint = MultivariateNormal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
axis = torch.linspace(-3, 3, 121, dtype=torch.float64)
points = torch.cartesian_prod(axis, axis)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.contour(axis, axis, joint.log_prob(points).exp().reshape(121, 121).T, levels=6, cmap="Blues")
given = joint.conditional([0], [1.5])
left.axvline(1.5, color="C3", linewidth=1)
left.plot(1.5 + given.log_prob(axis[:, None]).exp(), axis, color="C3", label="x2 given x1 = 1.5")
left.set(xlabel="x1", ylabel="x2", aspect="equal")
left.legend(frameon=False, loc="upper left")

first, second = MultivariateNormal([-0.8], [[1.0]]), MultivariateNormal([1.2], [[0.4]])
both, log_constant = first.product(second)
for law, name, style in ((first, "one measurement", "C0"), (second, "another", "C1"), (both, "both together", "k")):
    right.plot(axis, law.log_prob(axis[:, None]).exp(), style, label=name)
right.set(xlabel="x", ylabel="density", ylim=(0, 1.1))
right.legend(frameon=False, loc="upper left")
plt.show()
print(f"the two measurements agree with log-density {float(log_constant):.3f}")

# %%
# Directions
# ----------
# On a sphere the normal law is replaced by the von Mises–Fisher law. Its concentration says how close the
# directions are; it is fitted by inverting a ratio of Bessel functions exactly.

figure = plt.figure(figsize=(8, 3), layout="constrained")
for place, kappa in enumerate((1.0, 10.0, 100.0)):
    law = VonMisesFisher(torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64), kappa)
    rows = draw(law, 400, seed=place)
    fitted = mle(VonMisesFisher, rows)
    axes = figure.add_subplot(1, 3, place + 1, projection="3d")
    axes.scatter(*rows.T, s=4, color=f"C{place}")
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1), xticks=[], yticks=[], zticks=[])
    axes.set_box_aspect((1, 1, 1), zoom=1.2)
    axes.set_title(f"κ = {kappa:g}, fitted {float(fitted.concentration):.3g}", fontsize=10)
plt.show()

# %%
# Learning a share
# ----------------
# A coin fell heads 49 times in 80. The beta law says what is now believed about its bias. With more than two
# outcomes the Dirichlet law plays the same part.

p = torch.linspace(0.001, 0.999, 400, dtype=torch.float64)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for heads, tails in ((0, 0), (5, 3), (49, 31)):
    law = beta_posterior(Beta(1.0, 1.0), heads, tails)
    low, high = law.icdf(torch.tensor([0.025, 0.975]))
    axes.plot(p, law.log_prob(p).exp(), label=f"{heads} of {heads + tails}: {low:.2f} to {high:.2f}")
axes.set(xlabel="probability of heads", ylabel="density")
axes.legend(frameon=False)
plt.show()
print(dirichlet_posterior(Dirichlet(torch.ones(3)), [12, 3, 0]).mean)

# %%
# Mixtures of different families
# ------------------------------
# Nine measurements of ten are normal and the tenth is wild. A mixture says which is which; Student's t law, fitted to
# the same data, is a quick way to be robust, and the plain normal fit is neither.

law = Mixture([0.9, 0.1], [Normal(0.0, 1.0), StudentT(torch.tensor(2.0), 0.0, 6.0)])
values = draw(law, 1000, seed=0)
x = torch.linspace(-10, 10, 400)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.hist(values.numpy(), bins=80, range=(-10, 10), density=True, color="0.85")
axes.plot(x, law.log_prob(x).exp(), "k--", linewidth=1, label="truth")
for family, color in ((StudentT, "C3"), (Normal, "C0")):
    axes.plot(x, mle(family, values).log_prob(x).exp(), color, label=f"{family.__name__} fit")
axes.set(xlabel="x", ylabel="density")
axes.legend(frameon=False)
plt.show()
print("entropy of the mixture:", law.entropy())
print("is 4 wild?", law.responsibilities(torch.tensor(4.0))[1].item())
