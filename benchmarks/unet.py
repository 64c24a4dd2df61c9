"""50 DDIM steps with a U-Net on a CPU: our sampler and diffusers' with the same weights, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Interval, Quality, alternate
from benchmarks.report import Claim, Result
from benthic.nets.unet import UNet

TITLE = "U-Net 32-64-64 with attention, 28x28, batch 16, 50 DDIM steps: beside diffusers' loop"
SIZE, BATCH, LENGTH = 28, 16, 1000


def network() -> UNet:
    """Our U-Net with lively weights, in the shape diffusers' model has too."""
    torch.manual_seed(0)
    made = UNet(
        (1, SIZE, SIZE), channels=32, multipliers=(1, 2, 2), blocks=2, attention=(14, 7), scale_shift=False, groups=8
    )
    for weight in made.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.03)
    return made.eval()


def peer(ours: UNet) -> Any:
    """diffusers' U-Net with the same weights."""
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=SIZE,
        in_channels=1,
        out_channels=1,
        block_out_channels=(32, 64, 64),
        layers_per_block=2,
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=None,
        flip_sin_to_cos=False,
        freq_shift=1,
    )
    model.load_state_dict(translated(ours))
    return model.eval()


BLOCK = {"norm1": "norm_in", "conv1": "conv_in", "time_emb_proj": "steer", "norm2": "norm_out", "conv2": "conv_out"}


def translated(ours: UNet) -> dict[str, Tensor]:
    """Our weights under their names."""
    own, found = dict(ours.state_dict()), {}
    names = {"conv_in": "first", "conv_norm_out": "norm", "conv_out": "last"}
    names |= {"time_embedding.linear_1": "level.dense.0", "time_embedding.linear_2": "level.dense.2"}
    stages = {"mid_block.{}.0": "middle.0", "mid_block.{}.1": "middle.1"}
    for i in range(3):
        stages |= {f"{way}_blocks.{i}.{{}}.{j}": f"{way}.{i}.{j}" for way in ("down", "up") for j in range(3)}
        names[f"down_blocks.{i}.downsamplers.0.conv"] = f"shrink.{i}"
        names[f"up_blocks.{i}.upsamplers.0.conv"] = f"grow.{i}.conv"
    for place, stage in stages.items():
        block, look = place.format("resnets"), place.format("attentions")
        names |= {f"{block}.{theirs}": f"{stage}.block.{name}" for theirs, name in BLOCK.items()}
        names |= {f"{block}.conv_shortcut": f"{stage}.block.skip", f"{look}.group_norm": f"{stage}.attention.norm"}
        names[f"{look}.to_out.0"] = f"{stage}.attention.attention.out"
        thirds = ("to_q", "to_k", "to_v")
        for part in ("weight", "bias"):
            together = own.get(f"{stage}.attention.attention.queries_keys_values.{part}")
            if together is not None:
                found |= {f"{look}.{a}.{part}": b for a, b in zip(thirds, together.chunk(3), strict=True)}
    for theirs, name in names.items():
        found |= {f"{theirs}.{part}": own[f"{name}.{part}"] for part in ("weight", "bias") if f"{name}.{part}" in own}
    return found


def by_diffusers(model: Any, start: Tensor, steps: int) -> Tensor:
    """Their scheduler and loop, as their pipeline for unconditional pictures has them."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(
        num_train_timesteps=LENGTH, clip_sample=False, set_alpha_to_one=True, timestep_spacing="leading"
    )
    scheduler.set_timesteps(steps)
    x = start
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(model(x, t).sample, t, x, eta=0.0).prev_sample
    return x


def by_benthic(call: Callable[..., Tensor], start: Tensor, steps: int) -> Tensor:
    """Our sampler at the same times; their step k is our time k + 1, and the network counts as theirs does."""
    from benthic.generative.diffusion import Denoiser, DiscreteChain, sample

    times = [1.0 + LENGTH // steps * i for i in reversed(range(steps))]
    denoiser = Denoiser(DiscreteChain(LENGTH), lambda x, level: call(x, level - 1), "noise", sees="time")
    return sample(denoiser, sampler="ddim", times=times, start=start)


def run(quick: bool = False) -> Result:
    """Alternate their loop, ours, and ours compiled, from the same noise."""
    steps, repeats = (4, 1) if quick else (50, 5)
    ours = network()
    theirs = peer(ours)
    start = torch.randn(BATCH, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    reference = by_diffusers(theirs, start, steps)

    def quality(x: Tensor) -> Quality:
        return {"largest difference": float((x - reference).abs().max()), "largest value": float(x.abs().max())}

    work: dict[str, Callable[[], Quality]] = {
        "diffusers": lambda: quality(by_diffusers(theirs, start, steps)),
        "benthic": lambda: quality(by_benthic(ours, start, steps)),
    }
    if not quick:
        fast = torch.compile(network().to(memory_format=torch.channels_last))
        work["benthic, compiled"] = lambda: quality(by_benthic(fast, start, steps))
        twin = torch.compile(peer(network()))
        work["diffusers, compiled"] = lambda: quality(by_diffusers(twin, start, steps))
        for name in ("benthic, compiled", "diffusers, compiled"):
            work[name]()
    timings = alternate(work, repeats=repeats)
    # an untrained network lets the noise grow as the signal's share does, so the difference is measured by the values
    found = quality(by_benthic(ours, start, steps))
    gap = found["largest difference"] / found["largest value"]
    claims = [
        Claim("largest difference of the samples over their largest value", Interval(gap, gap, gap), "<=", 1e-4),
        Claim("diffusers / benthic", timings.ratio("diffusers", "benthic"), ">=", 1.0, "x"),
    ]
    if not quick:
        claims.append(
            Claim("diffusers / benthic compiled", timings.ratio("diffusers", "benthic, compiled"), ">=", 1.15, "x")
        )
        both = timings.ratio("diffusers, compiled", "benthic, compiled")
        claims.append(Claim("diffusers compiled / benthic compiled", both, ">=", 1.0, "x"))
    settings = {"steps": steps, "batch": BATCH, "threads": torch.get_num_threads()}
    return Result("unet", TITLE, claims, timings, settings)
