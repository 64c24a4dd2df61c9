"""
Checkerboards in generated pictures
===================================

Networks that make pictures often leave a fine regular pattern in them. It comes from how they enlarge pictures, can be
counted before training, and measured in what they make (Odena, Dumoulin & Olah, 2016).
"""

# %%
# Where it comes from
# -------------------
# A transposed convolution writes its kernel once for each input pixel, a stride apart. If the stride does not divide
# the kernel, some pixels are written to more often than their neighbors. In the plane the counts multiply.

import matplotlib.pyplot as plt
import torch
from torch import nn

from benthic.generative.gan.theory_checkerboard import (
    checkerboard,
    network_checkerboard,
    overlap_counts,
    overlap_unevenness,
    plot_checkerboard,
)

figure, axes = plt.subplots(1, 4, figsize=(9.4, 2.6), layout="constrained")
for kernel, axis in zip((3, 4, 5), axes, strict=False):
    counts = overlap_counts(kernel, 2, 6)
    axis.imshow(torch.outer(counts, counts), cmap="viridis")
    axis.set_title(f"kernel {kernel}, stride 2\nuneven by {overlap_unevenness(kernel, 2):.2f}", fontsize="medium")
counts = overlap_counts(3, 2, 6, resize=True)
axes[3].imshow(torch.outer(counts, counts), cmap="viridis")
axes[3].set_title("resize, then kernel 3\nuneven by 0", fontsize="medium")
for axis in axes:
    axis.set(xticks=[], yticks=[])
plt.show()

# %%
# How strong it is
# ----------------
# A pattern of period two has its power at three frequencies. ``checkerboard`` compares the power there with that of
# the frequencies around them: a photograph has a ratio near 1. Here are networks that have not learned anything yet,
# so all they show is their structure. With equal weights the pattern is that of the overlaps. With random weights an
# even overlap is no protection: such a layer *can* learn to be even, and one with a kernel of 3 has to work against
# its own structure to become so. Resizing has nothing to learn.


def generator(kind, kernel, equal=False):
    """Three layers that double a picture."""
    layers = []
    for inputs, outputs in ((8, 16), (16, 16), (16, 1)):
        if kind == "transposed":
            layer = nn.ConvTranspose2d(inputs, outputs, kernel, 2, (kernel - 1) // 2, output_padding=kernel % 2)
        else:
            layers.append(nn.Upsample(scale_factor=2))
            layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        if equal:
            nn.init.constant_(layer.weight, 4 / (inputs * kernel**2))
        layers += [layer, nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


torch.manual_seed(0)
noise = torch.randn(64, 8, 8, 8) + 1.0
networks = {
    "kernel 3, equal": generator("transposed", 3, equal=True),
    "kernel 4, equal": generator("transposed", 4, equal=True),
    "kernel 4, random": generator("transposed", 4),
    "resize, random": generator("resize", 3),
}
with torch.no_grad():
    pictures = {name: network(noise) for name, network in networks.items()}
for name, made in pictures.items():
    found = checkerboard(made)
    print(f"{name:16} ratio {found.ratio}, {100 * found.share:.2g} % of the variance")
plot_checkerboard(pictures)

# %%
# What a generator is told
# ------------------------
# Gradients go through the layers of a critic backwards, where a convolution with a stride is a transposed one. So the
# generator is told more about some pixels than about others.

critics = {
    "stride 2, kernel 3": nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1)),
    "stride 2, kernel 4": nn.Sequential(nn.Conv2d(1, 16, 4, 2), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1)),
    "stride 1, kernel 3": nn.Sequential(nn.Conv2d(1, 16, 3, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1)),
}
for name, critic in critics.items():
    print(f"{name:19} ratio {network_checkerboard(critic, pictures['resize, random'], gradient=True).ratio}")
