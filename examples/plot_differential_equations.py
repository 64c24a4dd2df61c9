"""
Differential equations: fields, curves, noise
=============================================

A field says where every point goes next. One function follows it: with steps as long as a tolerance allows, to the
times one asks for, until something happens, with gradients to whatever the field is made of.
"""

# %%
# Predators and prey
# ------------------
# The populations of Lotka and Volterra go round a point of balance. Curves are solutions through the dots.

import matplotlib.pyplot as plt
import numpy as np
import torch

from benthic.dynamics import BrownianPath, Event, LinearSystem, phase_portrait, solve, solve_sde


def populations(t, y, rates=(1.0, 0.5, 0.25, 0.75)):
    prey, hunters = y[..., 0], y[..., 1]
    return torch.stack(
        [rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - rates[3] * hunters], -1
    )


figure, axes = plt.subplots(figsize=(5.4, 4.4), layout="constrained")
phase_portrait(populations, (0.0, 8.0, 0.0, 6.0), [[1.0, 1.0], [2.0, 1.5], [0.5, 2.0]], time=8.0, axes=axes)
axes.set(xlabel="prey", ylabel="hunters")
plt.show()

# %%
# Two tanks
# ---------
# Fertilizer flows between two tanks of 100 liters, 3 liters a minute each way. A linear system has its solution in
# closed form, and its matrix comes back from data.

tanks = LinearSystem([[-0.03, 0.03], [0.03, -0.03]])
times = torch.linspace(0, 60, 31, dtype=torch.float64)
amounts = tanks.flow([0.0, 100.0], times)
print("after 2 minutes:", tanks.flow([0.0, 100.0], 2.0).numpy().round(3))
noisy = amounts + torch.randn(amounts.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
print("the matrix from noisy data:")
print(LinearSystem.recover(times, noisy).A.numpy().round(4))

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(times, amounts, label=["first tank", "second tank"])
axes.set_prop_cycle(None)
axes.plot(times, noisy, ".", markersize=4)
axes.set(xlabel="minutes", ylabel="fertilizer")
axes.legend(frameon=False)
plt.show()

# %%
# Until something happens
# -----------------------
# A thrown stone, and the moment it lands. The landing time has a gradient, so a throw can be aimed: Newton's method
# finds the speed with which the stone stays in the air for three seconds.


def throw(speed):
    def fall(t, y):
        return torch.stack([y[1], -9.81 - 0.1 * y[1] * y[1].abs()])

    start = torch.stack([torch.tensor(1e-6, dtype=torch.float64), speed])
    return solve(fall, start, np.linspace(0, 20, 200), events=[Event(lambda t, y: y[0], direction=-1)])


speed = torch.tensor(5.0, dtype=torch.float64)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for turn in range(6):
    speed.requires_grad_()
    flight = throw(speed)
    landing = flight.events[0].t
    axes.plot(flight.t.detach(), flight.y[:, 0].detach(), color=f"C{turn}", label=f"{speed.item():.2f} m/s")
    (slope,) = torch.autograd.grad(landing, speed)
    speed = (speed - (landing - 3.0) / slope).detach()
axes.axvline(3.0, color="0.7", linestyle=":")
axes.set(xlabel="seconds", ylabel="height")
axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
print(f"in the air for {throw(speed).events[0].time:.6f} seconds")

# %%
# Noise
# -----
# A Brownian path is a function of time that a seed decides: with shorter steps the same path is seen closer, and the
# error of a method falls with its order. Milstein's method gains one half over the one of Euler and Maruyama.

sizes = [2.0**-k for k in range(3, 9)]
start = torch.ones(500, 1, dtype=torch.float64)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
path = BrownianPath(0.0, 1.0, (500, 1), seed=1, dtype=torch.float64)
grid = np.linspace(0, 1, 257)
exact = torch.stack([torch.exp(path(t)) for t in grid])
left.plot(grid, exact[:, 0], color="black", linewidth=0.8, label="exact")
for method in ("euler_maruyama", "milstein"):
    errors = []
    for size in sizes:
        found = solve_sde(
            lambda t, y: 0.5 * y,
            lambda t, y: y,
            start,
            np.linspace(0, 1, round(1 / size) + 1),
            step=size,
            method=method,
            path=path,
        )
        errors.append(float((found.last - exact[-1]).abs().mean()))
        if size == 2.0**-4:
            left.plot(found.t, found.y[:, 0], marker=".", linewidth=1, label=method.replace("_", "-"))
    right.loglog(sizes, errors, marker="o", label=method.replace("_", "-"))
left.set(xlabel="t", ylabel="y")
left.legend(frameon=False)
right.set(xlabel="step", ylabel="mean error at t = 1")
right.legend(frameon=False)
plt.show()
