"""
Filters, edges and morphing
===========================

A low-pass filter keeps what changes slowly, a high-pass filter what changes fast; edge detectors measure slopes;
sharpening adds fine detail; a morph leads from one shape to another.
"""

# %%
# Low and high pass
# -----------------
# A Butterworth filter falls smoothly around its cutoff. The ideal filter cuts like a knife, and rings. Low and high
# pass add up to the image.

import math

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_sample_image

from benthic.linalg import (
    edges,
    high_pass,
    image_gradient,
    image_laplacian,
    low_pass,
    matrix_exp,
    matrix_log,
    morph,
    sharpen,
    transfer_function,
)

photo = torch.tensor(load_sample_image("flower.jpg")).double().mean(-1)[60:380, 150:470] / 255

figure, panels = plt.subplots(2, 3, figsize=(8, 5.4), layout="constrained")
for column, cutoff in enumerate((0.02, 0.08)):
    panels[0, column].imshow(low_pass(photo, cutoff, order=3), cmap="gray", vmin=0, vmax=1)
    panels[0, column].set_title(f"low pass, cutoff {cutoff}", fontsize=9)
    panels[1, column].imshow(high_pass(photo, cutoff, order=3), cmap="gray", vmin=-0.3, vmax=0.3)
    panels[1, column].set_title(f"high pass, cutoff {cutoff}", fontsize=9)
panels[0, 2].imshow(photo, cmap="gray", vmin=0, vmax=1)
panels[0, 2].set_title("original", fontsize=9)
panels[1, 2].imshow(low_pass(photo, 0.08, "ideal"), cmap="gray", vmin=0, vmax=1)
panels[1, 2].set_title("ideal low pass: rings", fontsize=9)
for axes in panels.flat:
    axes.set_axis_off()
plt.show()

figure, axes = plt.subplots(figsize=(5.6, 2.8), layout="constrained")
frequency = torch.fft.rfftfreq(512)
for kind, order in (("ideal", 1), ("gaussian", 1), ("butterworth", 1), ("butterworth", 3), ("butterworth", 10)):
    name = f"{kind}, order {order}" if kind == "butterworth" else kind
    axes.plot(frequency, transfer_function((1, 512), 0.1, kind, order)[0], label=name)
axes.set(xlabel="cycles a pixel", ylabel="kept", xlim=(0, 0.4))
axes.legend(frameon=False, fontsize=8)
plt.show()

# %%
# Edges and sharpening
# --------------------
# Sobel's kernels estimate the slope in two directions; its length is large along edges. The Laplacian sums the
# differences to the neighbors; taking it away sharpens.

slope = image_gradient(photo)
shown = [
    ("slope down", slope[0], (-0.1, 0.1)),
    ("slope across", slope[1], (-0.1, 0.1)),
    ("edges (Sobel)", edges(photo), (0, 0.15)),
    ("Laplacian", image_laplacian(photo), (-0.15, 0.15)),
    ("sharpened", sharpen(photo, 1.0), (0, 1)),
    ("unsharp mask", sharpen(photo, 1.5, sigma=3.0), (0, 1)),
]
figure, panels = plt.subplots(2, 3, figsize=(8, 5.4), layout="constrained")
for axes, (title, image, (low, high)) in zip(panels.flat, shown, strict=True):
    axes.imshow(image, cmap="gray", vmin=low, vmax=high)
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()
plt.show()

# %%
# Morphing
# --------
# Each shape becomes the distance to its border. Distances are averaged, and where the average is negative is the
# shape in between. It travels from center to center as it changes. A dissolve only fades one into the other.

rows, columns = torch.meshgrid(torch.arange(120.0), torch.arange(160.0), indexing="ij")
radius, angle = torch.hypot(rows - 60, columns - 45), torch.atan2(rows - 60, columns - 45)
star = (radius < 30 + 10 * torch.cos(5 * angle + math.pi / 2)).double()
ring = ((torch.hypot(rows - 60, columns - 115) - 24).abs() < 9).double()

times = torch.linspace(0, 1, 6, dtype=torch.float64)
figure, panels = plt.subplots(2, 6, figsize=(9, 2.7), layout="constrained")
for row, method in zip(panels, ("shape", "dissolve"), strict=True):
    for axes, t, frame in zip(row, times, morph(star, ring, times, method), strict=True):
        axes.imshow(frame, cmap="gray_r", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"t = {t:.1f}" if method == "shape" else "", fontsize=9)
    row[0].set_ylabel(method)
plt.show()

# %%
# Part of a movement
# ------------------
# A movement of the plane is a matrix; half of it is the exponential of half its logarithm. Mixing matrices entry by
# entry shrinks the shape instead. The logarithm is the principal one: a turn by 200 degrees is taken as one by 160
# the other way.


def turn(degrees, scale=1.0):
    a = math.radians(degrees)
    return scale * torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64)


outline = torch.tensor([[1.0, 0.2], [1.6, 0.2], [1.6, 0.0], [2.1, 0.35], [1.6, 0.7], [1.6, 0.5], [1.0, 0.5]]).double().T
identity = torch.eye(2, dtype=torch.float64)
paths = [
    ("exp(t log A), turn by 150", lambda t: matrix_exp(t * matrix_log(turn(150, 0.7)))),
    ("(1 - t) I + t A", lambda t: (1 - t) * identity + t * turn(150, 0.7)),
    ("exp(t log A), turn by 200", lambda t: matrix_exp(t * matrix_log(turn(200, 0.7)))),
]
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for axes, (title, path) in zip(panels, paths, strict=True):
    for t in torch.linspace(0, 1, 7):
        axes.fill(*(path(float(t)) @ outline), color=plt.cm.viridis(float(t)), alpha=0.8)
    axes.set(xlim=(-2.3, 2.3), ylim=(-2.3, 2.3), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, fontsize=9)
plt.show()
