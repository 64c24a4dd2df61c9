"""
From noise to data: samplers against their cost
===============================================

A diffusion model turns noise into data by following an equation whose only unknown is the score. For a mixture of
Gaussians the score is known in closed form, so what is left is the error of the sampler alone.
"""

# %%
# The same noise, the same process, a growing number of evaluations: how far do points end from where the exact flow
# takes them? On doubled logarithmic axes the slope is the order of the sampler.

import matplotlib.pyplot as plt
import torch

from benthic.generative.diffusion import (
    DDIM,
    ODE,
    AddedNoise,
    DPMSolver,
    Euler,
    Heun,
    UniPC,
    draw_trajectory,
    exact_denoiser,
    sample,
    time_grid,
    trajectory,
)

angles = torch.arange(6, dtype=torch.float64) * torch.pi / 3
centers = 2 * torch.stack([angles.cos(), angles.sin()], 1)
mixture = (torch.arange(1.0, 7.0), centers, 0.05 * torch.eye(2).repeat(6, 1, 1))
process = AddedNoise(t_min=0.02, t_max=40.0)
denoiser = exact_denoiser(mixture, process)

start = process.draw_prior((300, 2), torch.empty(0, dtype=torch.float64), torch.Generator().manual_seed(0))
exact = sample(denoiser, start=start, sampler=ODE(rtol=1e-9, atol=1e-9, variable="log_snr"), denoise=False)

samplers = {
    "Euler": Euler(),
    "Heun": Heun(),
    "DPM-Solver++ 2M": DPMSolver(2),
    "DPM-Solver++ 3M": DPMSolver(3),
    "UniPC": UniPC(),
}
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, sampler in samplers.items():
    costs, errors = [], []
    for evaluations in (8, 12, 20, 32, 64, 128):
        moves = evaluations // sampler.evaluations
        x = sample(denoiser, start=start, sampler=sampler, times=time_grid(process, moves + 1), denoise=False)
        costs.append(moves * sampler.evaluations)
        errors.append((x - exact).norm(dim=1).mean())
    axes.loglog(costs, errors, marker="o", markersize=3, label=f"{name} (order {sampler.order})")
axes.set(xlabel="evaluations of the denoiser", ylabel="mean distance from the exact flow")
axes.legend(frameon=False, fontsize="small")
plt.show()

# %%
# Samplers with noise
# -------------------
# They do not follow a flow, so only their law can be judged: here the share of samples that each Gaussian gets, and how
# wide its samples are. Both errors are those of 2000 samples where they level off.

truth = denoiser.weights
figure, both = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for name in ("ancestral", "euler_maruyama", "predictor_corrector", "heun", "dpm2m"):
    shares, widths, counts = [], [], (10, 25, 60, 150)
    for steps in counts:
        x = sample(denoiser, (2000, 2), sampler=name, steps=steps, seed=1, dtype=torch.float64)
        who = denoiser.responsibilities(x)
        shares.append((who.mean(0) - truth).abs().sum())
        away = (x[:, None] - centers).square().sum(2)
        widths.append(((who * away).sum() / (2 * len(x))).sqrt())
    both[0].loglog(counts, shares, marker="o", markersize=3, label=name)
    both[1].semilogx(counts, widths, marker="o", markersize=3)
both[0].axhline(6 * 0.8 * (1 / 6 * 5 / 6 / 2000) ** 0.5, color="0.7", linewidth=0.8)  # what chance alone leaves
both[1].axhline(0.05**0.5, color="0.7", linewidth=0.8)
both[0].set(xlabel="steps", ylabel="total error of the shares")
both[1].set(xlabel="steps", ylabel="width of a component")
both[0].legend(frameon=False, fontsize="small")
plt.show()

# %%
# On the way
# ----------
# Straight where noise is large, bent where the Gaussians compete.

path = trajectory(denoiser, start=start[:120] * (3 / 40), t_start=3.0, sampler=DDIM(), steps=40)
draw_trajectory(path, "from noise to six Gaussians")
