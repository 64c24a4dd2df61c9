"""
Networks of continuous depth
============================

A residual network moves its input by a small step in every layer. With ever more and ever smaller steps the
layers become a flow: the input is where a curve begins, a learned field says how it goes on, and the answer is
read off where the curve ends.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import benthic
from benthic.dynamics import phase_portrait, solve
from benthic.dynamics.recovery import recover

# %%
# Two spirals
# -----------
# No line parts the two arms. The flow begins at the points themselves, with one more dimension of zeros beside
# them, and is trained so that a plane parts what it carries to time 1.

rng = np.random.default_rng(0)
angle = np.sqrt(rng.random(300)) * 3 * np.pi
side = np.arange(300) % 2
turned = angle + np.pi * side
X = np.stack([angle * np.cos(turned), angle * np.sin(turned)], 1) + 0.3 * rng.normal(size=(300, 2))

model = benthic.NeuralODEClassifier(
    width=None,
    hidden_layer_sizes=(32,),
    activation="tanh",
    augment=1,
    solver_steps=3,
    trainer={"steps": 300, "lr": 0.03, "batch_size": 300, "verbose": False},
    random_state=0,
).fit(X, side)
print(model.summary())
print(f"right on {model.score(X, side):.1%} of the points")

# %%
# Along the way
# -------------
# ``flow`` gives the states at any times between. They are seen here from the side of the plane that parts them:
# across is the direction in which the classes are told apart, up is the widest direction within that plane.

times = [0.0, 0.33, 0.67, 1.0]
states = model.flow(X, times)
weights = model.network_.head.weight.detach().numpy()
normal = (weights[1] - weights[0]) / np.linalg.norm(weights[1] - weights[0])
rest = states[-1] - np.outer(states[-1] @ normal, normal)
up = np.linalg.svd(rest - rest.mean(0))[2][0]
figure, panels = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for axes, time, state in zip(panels, times, states, strict=True):
    axes.scatter(state @ normal, state @ up, c=side, cmap="coolwarm", s=8)
    axes.set(title=f"time {time:g}", xticks=[], yticks=[])
plt.show()

# %%
# What it says everywhere
# -----------------------

line = np.linspace(-11, 11, 120)
plane = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
chance = model.predict_proba(plane)[:, 1].reshape(120, 120)
figure, axes = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
axes.contourf(line, line, chance, levels=20, cmap="coolwarm", alpha=0.6)
axes.scatter(*X.T, c=side, cmap="coolwarm", s=8, edgecolors="white", linewidths=0.3)
axes.set(xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# Equations of a known form
# -------------------------
# Where the form of the equations is known, only their numbers are to be found. Hares grow and are eaten, lynxes
# eat and die; both are counted with noise, and the first guess is far off.


def hares_and_lynxes(p):
    """The field of Lotka and Volterra with rates p."""
    return lambda t, z: torch.stack(
        [p[0] * z[..., 0] - p[1] * z[..., 0] * z[..., 1], p[3] * z[..., 0] * z[..., 1] - p[2] * z[..., 1]], -1
    )


truth = torch.tensor([1.0, 0.5, 0.8, 0.3], dtype=torch.float64)
guess = torch.tensor([0.7, 0.7, 0.7, 0.2], dtype=torch.float64)
t = torch.linspace(0, 10, 26, dtype=torch.float64)
exact = solve(hares_and_lynxes(truth), torch.ones(2, dtype=torch.float64), t).y
seen = exact + 0.2 * torch.randn(exact.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

# %%
# The data are cut in four pieces that begin where they were seen, and the pieces are drawn together.

found = recover(hares_and_lynxes, guess, t, seen, segments=4, rtol=1e-6, atol=1e-6)
print(found)

fine = torch.linspace(0, 10, 300, dtype=torch.float64)
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
for parameters, style, label in ((guess, ":", "first guess"), (found.parameters, "-", "recovered")):
    curve = solve(hares_and_lynxes(parameters), found.initial, fine).y
    for i, name in enumerate(("hares", "lynxes")):
        axes.plot(fine, curve[:, i], style, color=f"C{i}", label=f"{name}, {label}")
for i in range(2):
    axes.plot(t, seen[:, i], "o", color=f"C{i}", markersize=4)
axes.set(xlabel="time", ylabel="number")
axes.legend(frameon=False, ncols=2)
plt.show()

# %%
# Equations of an unknown form
# ----------------------------
# Where nothing is known but the trajectories, a network takes the place of the equations. Six of them, seen with
# noise, are cut in pieces of eight steps, and the field is learned that carries each piece to where the next begins.

times = np.linspace(0, 8, 33)
starts = torch.tensor(rng.uniform([1, 0.5], [5, 3], size=(6, 2)))
seen = solve(hares_and_lynxes(truth), starts, times).y.transpose(0, 1).numpy()
seen = seen + 0.1 * rng.normal(size=seen.shape)

motion = benthic.NeuralODERegressor(
    hidden_layer_sizes=(32,),
    activation="tanh",
    solver_steps=1,
    times=times,
    trainer={"steps": 60, "verbose": False},
    random_state=0,
).fit(seen)
print(f"{motion.score(seen):.1%} of the variance explained, from the first states on")

# %%
# The true field and the learned one, where there were data. Curves are followed to twice as late as any that was seen.

box = (0.0, 7.0, 0.0, 5.0)
curves = np.array([[2.0, 1.0], [4.0, 1.0]])
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
phase_portrait(hares_and_lynxes(truth), box, axes=left)
phase_portrait(lambda t, z: motion.velocity(z), box, axes=right)
late = np.linspace(0, 16, 400)
for i, start in enumerate(curves):
    exact = solve(hares_and_lynxes(truth), torch.tensor(start), late).y
    left.plot(*exact.T, color=f"C{i + 1}")
    right.plot(*motion.forecast(start[None], late)[0].T, color=f"C{i + 1}")
left.plot(*seen.reshape(-1, 2).T, ".", color="gray", markersize=3)
left.set(title="true field, and what was seen", xlabel="hares", ylabel="lynxes")
right.set(title="learned field", xlabel="hares")
plt.show()
