"""
Convolution, three ways
=======================

Convolution slides a kernel over a signal. It can be summed directly, taken through the Fourier transform, or
written as a matrix; the three agree to rounding.
"""

# %%
# Convolution and correlation
# ---------------------------
# Correlation uses the kernel as it is, convolution turns it around. Networks compute correlations and call them
# convolutions.

import time

import matplotlib.pyplot as plt
import torch

from benthic.linalg import (
    SingularMatrix,
    Toeplitz,
    condition,
    convolution_matrix,
    convolve,
    convolve_backward,
    correlate,
    output_size,
    solve,
)

x, w = torch.arange(9.0).reshape(3, 3), torch.arange(4.0).reshape(2, 2)
print("correlation\n", correlate(x, w))
print("convolution\n", convolve(x, w))

spike = torch.zeros(40)
spike[[8, 26]] = torch.tensor([1.0, 0.6])
echo = torch.tensor([1.0, 0.7, 0.5, 0.3, 0.1])
results = [
    ("convolution: the echo follows", convolve(spike, echo, padding="full")[:40]),
    ("correlation: the echo comes first", correlate(spike, echo, padding="full")[4:]),
]
figure, both = plt.subplots(1, 2, figsize=(7, 2.4), sharey=True, layout="constrained")
for axes, (title, result) in zip(both, results, strict=True):
    axes.vlines(torch.arange(40), 0, result, lw=2)
    axes.scatter([8, 26], [1.0, 0.6], color="C1", zorder=3, label="signal")
    axes.set_title(title, fontsize=9)
both[0].legend(frameon=False)
plt.show()

# %%
# As a matrix
# -----------
# In one dimension the matrix is constant along diagonals (Toeplitz). In two, Toeplitz blocks stand in a Toeplitz
# pattern; stride removes rows, dilation spreads the diagonals.

kernel = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
cases = [
    ("1-D, full", convolution_matrix(kernel[0], 12, padding="full")),
    ("2-D, same", convolution_matrix(kernel, (6, 6), padding="same")),
    ("2-D, stride 2", convolution_matrix(kernel, (6, 6), padding=1, stride=2)),
    ("2-D, dilation 2", convolution_matrix(kernel, (6, 6), padding=2, dilation=2)),
]
figure, panels = plt.subplots(1, 4, figsize=(9, 2.8), layout="constrained")
for axes, (title, T) in zip(panels, cases, strict=True):
    axes.imshow(torch.where(T == 0, torch.nan, T), cmap="viridis")
    axes.set_title(f"{title}\n{T.shape[0]} x {T.shape[1]}", fontsize=9)
    axes.set(xticks=[], yticks=[])
plt.show()

image = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
T = convolution_matrix(kernel, (6, 6), padding=1, stride=2)
direct = convolve(image, kernel, padding=1, stride=2)
print("size by the rule:", output_size((6, 6), 3, padding=1, stride=2), " matrix - direct:", end=" ")
print(f"{(T @ image.flatten() - direct.flatten()).abs().max():.1e}")

# %%
# Backwards
# ---------
# The transpose of the matrix carries gradients back; it is a correlation. Both are the same numbers.

grad = torch.ones_like(direct)
grad_image, grad_kernel = convolve_backward(grad, image, kernel, padding=1, stride=2)
print(f"matrix transposed - backward: {(T.T @ grad.flatten() - grad_image.flatten()).abs().max():.1e}")

# %%
# Undoing a convolution
# ---------------------
# A blur of width two is a Toeplitz matrix, and ``solve`` by that structure takes O(n²) instead of O(n³). The system
# is so ill-conditioned that noise of one part in a thousand drowns the answer; a ridge, in the normal equations,
# brings it back. A matrix that is singular to working precision is refused, with the number that says so.

n = 200
signal = ((torch.arange(n) // 23) % 3 == 0).double() + 0.5 * ((torch.arange(n) // 40) % 2).double()
blur = Toeplitz(torch.exp(-0.5 * (torch.arange(n, dtype=torch.float64) / 2.0) ** 2) / (2.0 * (2 * torch.pi) ** 0.5))
noise = 1e-3 * torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
seen = blur @ signal + noise
plain = solve(blur, seen)
B = blur.dense()
ridge = solve(B.T @ B + 1e-4 * torch.eye(n, dtype=torch.float64), B.T @ seen)
print(f"condition number {condition(blur):.1e}")

try:
    wider = Toeplitz(torch.exp(-0.5 * (torch.arange(n, dtype=torch.float64) / 4.0) ** 2))
    solve(wider, seen)
except SingularMatrix as error:
    print(error)

figure, panels = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for axes, (title, found) in zip(panels, [("seen", seen), ("solved", plain), ("with a ridge", ridge)], strict=True):
    axes.plot(signal, color="0.75")
    axes.plot(found, lw=1)
    axes.set_title(title, fontsize=9)
plt.show()

# %%
# When the Fourier transform pays
# -------------------------------
# The cost of the direct sum grows with the kernel's area; that of the transform does not. ``method="auto"`` changes
# over by an estimate of the two.


def seconds(method, width):
    kernel, times = torch.rand(width, width), []
    for _ in range(7):
        start = time.perf_counter()
        convolve(picture, kernel, method=method)
        times.append(time.perf_counter() - start)
    return min(times)


picture = torch.rand(256, 256)
widths = (3, 5, 9, 15, 25, 41)
figure, axes = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
for method, style in (("direct", "C0o-"), ("fft", "C1o-"), ("auto", "k:")):
    axes.loglog(widths, [1e3 * seconds(method, width) for width in widths], style, markersize=4, label=method)
axes.set(xlabel="kernel width", ylabel="milliseconds, 256 x 256", xticks=widths, xticklabels=widths)
axes.minorticks_off()
axes.legend(frameon=False)
plt.show()
