"""
The ways optimizers go
======================

An optimizer is judged by its path. Here are the paths of the usual first-order optimizers, of the methods that
use curvature, what happens on a saddle, and how the measured speed of gradient descent compares with theory.
"""

# %%
# First-order optimizers
# ----------------------
# Gradient descent follows the slope, so in a narrow valley it zigzags or crawls. Momentum adds up what stays the
# same from step to step. AdaGrad, RMSprop, AdaDelta and Adam give every coordinate its own rate, from the squares
# of its past gradients:
#
# .. math:: \theta \leftarrow \theta - \eta \, \hat m / (\sqrt{\hat v} + \epsilon) \quad \text{(Adam)}
#
# All of them come from ``torch.optim``; the heavy ball in Polyak's form is ours.

from functools import partial

import matplotlib.pyplot as plt
import torch

from benthic.optim import check_gradient_descent, least_squares_constants, minimize, plot_paths, trajectory


def valley(x):
    """A bowl thirty times steeper across than along, bent a little."""
    return 0.5 * (x[0] ** 2 + 30 * (x[1] - 0.1 * x[0] ** 2) ** 2)


start = [-4.0, 3.0]
rates = {
    "sgd": 0.02,
    "heavy_ball": 0.02,
    "nesterov": 0.02,
    "adagrad": 0.9,
    "rmsprop": 0.08,
    "adadelta": 60.0,
    "adam": 0.3,
}
paths = {name: trajectory(valley, start, name, steps=100, lr=rate) for name, rate in rates.items()}

figure, both = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
box = (-5.2, 2.6, -1.6, 3.8)
plot_paths(valley, {n: paths[n] for n in ("sgd", "heavy_ball", "nesterov")}, box=box, minima=[[0, 0]], axes=both[0])
plot_paths(
    valley, {n: paths[n] for n in ("adagrad", "rmsprop", "adadelta", "adam")}, box=box, minima=[[0, 0]], axes=both[1]
)
plt.show()

# %%
# Curvature
# ---------
# ``minimize`` takes any torch function. L-BFGS remembers the last changes of the gradient, BFGS all of them, and
# Newton's method asks autograd for the Hessian. The answer says how it ended.


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


found = {name: minimize(rosenbrock, [-1.2, 1.0], name, path=True) for name in ("lbfgs", "bfgs", "newton", "nesterov")}
for name, one in found.items():
    print(f"{name:9} {one}")

figure, both = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
newtonian = {name: found[name].path for name in ("lbfgs", "bfgs", "newton")}
plot_paths(rosenbrock, newtonian, box=(-1.6, 1.5, -0.6, 1.9), minima=[[1, 1]], axes=both[0])
for name, one in found.items():
    errors = (one.path - 1).norm(dim=1)
    both[1].semilogy(errors[:60], label=name)
both[1].set(xlabel="iteration", ylabel="distance from the minimum", ylim=(1e-13, 10))
both[1].legend(frameon=False)
plt.show()

# %%
# Many starts at once
# -------------------
# With ``batched=True`` the rows of a matrix are starts of their own: each has its own line search and its own
# end, and all of them share the tensor operations.


def himmelblau(x):
    a, b = x[..., 0], x[..., 1]
    return (a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2


grid = torch.cartesian_prod(torch.linspace(-5, 5, 60), torch.linspace(-5, 5, 60)).double()
ends = minimize(himmelblau, grid, batched=True)
print(ends)

minima = ends.point.round(decimals=4).unique(dim=0)
nearest = torch.cdist(ends.point, minima).argmin(1)
figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axes.scatter(*grid.T, c=nearest, s=9, cmap="tab10", linewidth=0, alpha=0.6)
plot_paths(himmelblau, {}, box=(-5, 5, -5, 5), minima=minima, axes=axes)
axes.set_title("where L-BFGS ends, by where it starts")
plt.show()

# %%
# Saddles
# -------
# Plain Newton steps solve :math:`\nabla f = 0` and are drawn to saddles as much as to minima. A trust region
# minimizes the quadratic model in a ball, so a direction of negative curvature is a way down, even from a point
# where the gradient vanishes.


def saddle(x):
    return x[0] ** 4 / 4 - x[0] ** 2 / 2 + x[1] ** 2


def plain_newton(x, steps=8):
    points = [x]
    for _ in range(steps):
        hessian, gradient = torch.func.hessian(saddle)(x), torch.func.grad(saddle)(x)
        x = x - torch.linalg.solve(hessian, gradient)
        points.append(x)
    return torch.stack(points)


x0 = torch.tensor([0.35, 0.9], dtype=torch.float64)
ways = {"plain Newton": plain_newton(x0), "trust region": minimize(saddle, x0, "newton", radius=0.4, path=True).path}
ways["from the saddle"] = minimize(saddle, torch.zeros(2, dtype=torch.float64), "newton", radius=0.4, path=True).path
figure, axes = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
plot_paths(saddle, ways, box=(-1.5, 1.5, -0.7, 1.1), minima=[[1, 0], [-1, 0]], axes=axes)
plt.show()

# %%
# Theory beside measurement
# -------------------------
# If gradients change at most L times as fast as the point, steps of 1/L find a gradient of length ε within
# :math:`2L (f_0 - f^*)/\epsilon^2` steps. If the Polyak-Łojasiewicz inequality
# :math:`\tfrac12 \|\nabla f\|^2 \ge \mu (f - f^*)` holds as well, the gap shrinks by :math:`1 - \mu/L` every step,
# whether or not the function is strongly convex. Least squares with dependent columns is such a case.

generator = torch.Generator().manual_seed(0)
normal = partial(torch.randn, generator=generator, dtype=torch.float64)
X, y = normal(40, 4) @ normal(4, 9), normal(40)
constants = least_squares_constants(X)
print(constants)
check = check_gradient_descent(
    lambda w: 0.5 * ((X @ w - y) ** 2).mean(), torch.ones(9).double(), constants.L, mu=constants.pl, steps=300
)
print("bounds hold:", check.holds, "- steps to a gradient of 0.01, measured and promised:", check.steps_to(0.01))
check.plot()
