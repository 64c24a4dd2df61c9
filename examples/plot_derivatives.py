"""
Derivatives, traces and adjoints
================================

What a model learns from is a derivative. Here are the ones beyond the plain gradient: slopes at kinks, the
divergence of a field, and linear operators that come with their adjoint.
"""

# %%
# Slopes at kinks
# ---------------
# At a kink there is an interval of slopes, from the one on the left to the one on the right, and autograd picks
# one of them. The bars are the intervals, the dots what autograd answers. In the last column it leaves the
# interval: ``relu(x) - relu(-x)`` is x, whose slope is 1, but each half contributes 0.

import matplotlib.pyplot as plt
import torch

from benthic.calculus import subdifferential

functions = {
    "relu(x)": torch.relu,
    "|x|": torch.abs,
    "leaky relu": lambda x: torch.nn.functional.leaky_relu(x, 0.2),
    "max(x, 0)": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "clamp(x, 0, 1)": lambda x: x.clamp(0, 1),
    "relu(x) - relu(-x)": lambda x: torch.relu(x) - torch.relu(-x),
}
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for place, (name, f) in enumerate(functions.items()):
    at = subdifferential(f, torch.tensor(0.0))
    inside = bool(at.contains_choice())
    axes.plot([place, place], [at.lower, at.upper], lw=10, color="C0", alpha=0.35, solid_capstyle="butt")
    axes.plot([place, place], [at.lower, at.upper], "_", color="C0", markersize=22)
    axes.plot(place, at.chosen, "o", color="C2" if inside else "C3")
    print(f"{name:20} between {float(at.lower):5.2f} and {float(at.upper):5.2f}, autograd {float(at.chosen):5.2f}")
axes.set_xticks(range(len(functions)), functions, rotation=15)
axes.set(ylabel="slope at 0")
plt.show()

# %%
# The divergence of a field
# -------------------------
# A flow that changes volumes needs the trace of its Jacobian at every point. Exactly, that takes one product for
# each dimension; with random probes a few do. Hutch++ first takes the trace on the directions the matrix acts
# most on, so it wins where a few directions dominate.

from benthic.calculus import divergence, trace_estimate

grid = torch.linspace(-2, 2, 25)
x, y = torch.meshgrid(grid, grid, indexing="xy")
places = torch.stack([x.flatten(), y.flatten()], 1)


def swirl(z):
    return torch.stack([torch.sin(2 * z[:, 1]) + z[:, 0] * torch.cos(z[:, 1]), torch.sin(z[:, 0] * z[:, 1])], 1)


vectors = swirl(places)
noise = torch.Generator().manual_seed(0)
basis = torch.linalg.qr(torch.randn(200, 200, generator=noise, dtype=torch.float64))[0]
matrix = (basis * torch.arange(1, 201) ** -1.5) @ basis.T

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
image = left.pcolormesh(grid, grid, divergence(swirl, places).reshape(25, 25), cmap="RdBu_r", vmin=-3, vmax=3)
left.quiver(places[:, 0], places[:, 1], vectors[:, 0], vectors[:, 1], scale=55, width=0.004)
left.set(title="a field and its divergence", aspect="equal")
figure.colorbar(image, ax=left, shrink=0.8)
counts = [6, 12, 24, 48, 96, 192]
for method in ("gaussian", "rademacher", "hutch++"):
    errors = []
    for count in counts:
        draws = [trace_estimate(matrix, method=method, samples=count, generator=noise).value for _ in range(30)]
        errors.append((torch.stack(draws) - matrix.trace()).square().mean().sqrt() / matrix.trace())
    right.loglog(counts, errors, marker="o", label=method)
right.set(title="trace of a matrix with decaying spectrum", xlabel="products with the matrix", ylabel="relative error")
right.legend(frameon=False)
plt.show()

# %%
# Operators and their adjoints
# ----------------------------
# The adjoint of interpolation is splatting: it spreads what lies between the cells over the cells around. The
# adjoint of the gradient is minus the divergence, and both together make the Laplacian, whose flow is diffusion.
# The dot-product test shows at once whether a pair belongs together.

from benthic.calculus import (
    check_adjoint,
    divergence_operator,
    fourier_operator,
    gradient_operator,
    interpolation_operator,
    laplacian_operator,
    splatting_operator,
)

shape = (48, 48)
angle = 6 * torch.pi * torch.linspace(0, 1, 1500, dtype=torch.float64).sqrt()
spiral = 23.5 + (angle / angle[-1] * 21)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
picture = splatting_operator(shape, spiral)(torch.ones(1500, dtype=torch.float64))
heat = picture.clone()
laplace = laplacian_operator(shape, "neumann")
for _ in range(10):
    heat = heat + 0.2 * laplace(heat)

pairs = {
    "gradient": gradient_operator(shape, "neumann"),
    "divergence": divergence_operator(shape, "periodic"),
    "Laplacian": laplacian_operator(shape, "dirichlet"),
    "interpolation": interpolation_operator(shape, spiral),
}
for name, operator in pairs.items():
    print(f"{name:15} defect {check_adjoint(operator).defect:.1e}")
complex_like = torch.zeros(shape, dtype=torch.complex128)
print(f"{'Fourier':15} defect {check_adjoint(fourier_operator(shape), x_like=complex_like).defect:.1e}")
wrong = check_adjoint(gradient_operator(shape, "neumann"), gradient_operator(shape, "periodic").adjoint)
print(f"{'wrong boundary':15} defect {wrong.defect:.1e}")

figure, both = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained")
for axes, values, title in zip(both, (picture, heat), ("splatted points", "after 10 steps of heat"), strict=True):
    axes.imshow(values, cmap="magma")
    axes.set(title=title, xticks=[], yticks=[])
plt.show()
print(f"mass before {float(picture.sum()):.6f} and after {float(heat.sum()):.6f}")
