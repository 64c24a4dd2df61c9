"""How good the samples of one diffusion model are by every sampler, and the bits per pixel of two more.

Run with ``python -m benchmarks.gpu.diffusion_table PICTURES.npz OUT_FOLDER [--names table subvp vdm] [--seconds 300]
[--judging 240] [--halved] [--quick]``. Labels are not used but by the judge. ``--halved`` takes pictures of 14 by 14
pixels, a smaller network and fewer samples, for two cores without a GPU.

``table``: one set of weights, those of EDM, is asked by all samplers: in its own time, and in the times of the
variance-preserving equation and chain, for which the network sees the noise level that belongs to them. Evaluations of
the network are counted while they happen. The Fréchet distance is that to the 10 000 pictures of the test set in the
128 features of a classifier trained here; the floor is the distance of as many training pictures, and the excess what
is above it. How much noise Heun's method adds in its steps is chosen by training pictures and other draws. A call
begins no new row after ``--judging`` seconds; the next call goes on.

``subvp``, ``vdm``: bits per pixel of test pictures with 256 levels, uniformly dequantized, (level + u) / 256, in
training as in testing, by networks that also see waves of each pixel; of the sub-VP equation along the probability flow
with an estimated trace, of variational diffusion by its bound.

Weights are kept in the folder, so that what is done is not done again.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import benthic
from benchmarks.gpu.picture_judge import Judge, Results, arguments, device, pictures, save_png, side_of, train_judge
from benthic.generative.diffusion import VP, AddedNoise, DiscreteChain, SubVP, log_likelihood, sample
from benthic.generative.diffusion.denoiser import Clipped, Denoising
from benthic.generative.diffusion.fast import fast_call
from benthic.generative.diffusion.solvers import ODE, AdaptiveSDE, Sampler, sampler_of
from benthic.generative.diffusion.solvers.onestep import Heun
from benthic.generative.diffusion.solvers.stochastic import AnnealedLangevin
from benthic.generative.diffusion.times import TimeLaw
from benthic.metrics import frechet_distance
from benthic.nets.unet import channels_last, default_unet

NETWORK: dict[str, Any] = {"channels": 32, "multipliers": (1, 2, 2), "blocks": 2, "attention": (7,)}
SMALL: dict[str, Any] = {"channels": 32, "multipliers": (1, 2), "blocks": 1, "attention": (7,)}
TRAINER: dict[str, Any] = {"batch_size": 512, "lr": 1e-3, "ema": 0.999, "precision": "bf16", "verbose": False}
COPIES = 4  # of the training pictures, each dequantized by draws of its own
BLOCK = 1250  # pictures that are drawn together
SAMPLES = {1000: 1250, 50: 5000, 35: 10_000, 20: 10_000, 10: 10_000}  # by evaluations, unless listed first

HALVED = dict.fromkeys(SAMPLES, 500)
CLAIMED = {False: 10_000, True: 2000}  # of the first rows, of whole pictures and of halved ones

# The same noise levels as those of EDM, σ/α from 0.01 to 80, in the times of others.
OWN = AddedNoise()
CHAIN = DiscreteChain(1000, beta_end=0.0174)
EQUATION = VP(t_min=1e-3, t_max=0.93)
# Noise down to a hundredth of a level, and as many times for each power of it: the weights of the likelihood.
SUBVP: dict[str, Any] = {"process": SubVP(t_min=1e-3), "times": TimeLaw("log_snr")}

CHURNS = (1.0, 2.5, 5.0, 7.5)  # of Heun's method in 18 steps, of which training pictures choose one

Plan = Callable[[int], tuple[Any, int]]  # from evaluations to a sampler and its steps


def _once(sampler: Any) -> Plan:
    return lambda count: (sampler, count)


def _twice(sampler: Any) -> Plan:
    return lambda count: (sampler, (count + 1) // 2)  # the last step takes one


def _walk(count: int) -> tuple[Any, int]:
    each = 10 if count >= 1000 else max(1, count // 10)
    return AnnealedLangevin(corrections=each), (count - 1) // each + 1


SAMPLERS: dict[str, tuple[Any, str | None, Plan]] = {
    "ancestral, chain": (CHAIN, None, _once("ancestral")),
    "ancestral": (OWN, None, _once("ancestral")),
    "DDIM, chain": (CHAIN, None, _once("ddim")),
    "Euler": (OWN, None, _once("euler")),
    "Heun": (OWN, None, _twice("heun")),
    "Heun, churn": (OWN, None, _twice(Heun(churn=CHURNS[0], low=0.05, high=50.0))),
    "DPM-Solver++ 2M": (OWN, None, _once("dpm2m")),
    "DPM-Solver++ 2M, log-SNR": (OWN, "log_snr", _once("dpm2m")),
    "DPM-Solver++ 2M, chain": (CHAIN, None, _once("dpm2m")),
    "DPM-Solver++ 3M": (OWN, None, lambda count: ("dpm3m", count - 1)),
    "UniPC": (OWN, None, _once("unipc")),
    "probability flow, RK4": (OWN, None, lambda count: (ODE("rk4"), max(2, (count - 1) // 4 + 1))),
    "Euler-Maruyama, VP": (EQUATION, "uniform", _once("euler_maruyama")),
    "predictor-corrector, VP": (EQUATION, "uniform", _twice("predictor_corrector")),
    "annealed Langevin": (OWN, None, _walk),
}
FREE: dict[str, tuple[Any, Sampler]] = {  # these take as many evaluations as they need
    "probability flow, Dormand-Prince 1e-2": (OWN, ODE(rtol=1e-2, atol=1e-2, variable="log_snr")),
    "probability flow, Dormand-Prince 1e-4": (OWN, ODE(variable="log_snr")),
    "adaptive SDE, VP": (EQUATION, AdaptiveSDE()),
}
FIRST = [  # what is claimed, by more samples
    ("Heun", 35),
    ("Heun, churn", 35),
    ("DPM-Solver++ 2M", 10),
    ("DPM-Solver++ 2M", 50),
    ("DPM-Solver++ 2M, chain", 10),
    ("DPM-Solver++ 2M, chain", 50),
    ("ancestral, chain", 1000),
]


@dataclass(frozen=True)
class Counted(Denoising):
    """A denoiser that counts how often it is asked."""

    inner: Any
    counts: list[int] = field(default_factory=lambda: [0])

    @property
    def process(self) -> Any:
        """The process of the denoiser."""
        return self.inner.process

    def data(self, x: Tensor, t: Any) -> Tensor:
        """The expected clean data."""
        self.counts[0] += 1
        found: Tensor = self.inner.data(x, t)
        return found


class FineUNet(nn.Module):
    """A U-Net that also sees sines and cosines of each pixel, with which values within a level are told apart.

    Kingma et al., 2021, section 5.2; here each wave fades where the noise is longer than it is. spread: of the pixels,
    in the units in which they lie between 0 and 1. time: the process, where the network is told the time.
    """

    def __init__(
        self, spread: float, side: int, time: Any = None, powers: Sequence[int] = range(3, 9), **options: Any
    ) -> None:
        super().__init__()
        scale = 50.0 if time is None else 1000.0
        self.body = default_unet((1 + 2 * len(powers), side, side), outputs=1, level_scale=scale, **options)
        self.time = time
        self.register_buffer("waves", torch.tensor([2 * math.pi * 2**k * spread for k in powers]))

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """Pictures (n, 1, h, w) at levels (n,) to answers of the same shape."""
        noise = (level if self.time is None else self.time.noise_level(level)).exp()
        angles = x * self.waves.to(x.dtype)[:, None, None]  # (n, waves, h, w)
        seen = torch.exp(-0.5 * (noise[:, None] * self.waves).square()).to(x.dtype)[:, :, None, None]
        found: Tensor = self.body(torch.cat([x, seen * angles.sin(), seen * angles.cos()], 1), level)
        return found


class Weights:
    """The trained network, in standard units, as a denoiser in the time of any process."""

    def __init__(self, model: Any, side: int) -> None:
        self.scales, self.denoiser, self.side = model.scales_, model.denoiser(), side
        call = fast_call(self.denoiser.function, device(), compile_=False, capture=True, precision="bf16")
        self.denoiser = replace(self.denoiser, function=call)
        ends = self.scales.transform(torch.tensor([[0.0], [1.0]]).expand(2, side * side))
        self.low, self.high = float(ends.min()), float(ends.max())

    def draw(
        self, n: int, process: Any, sampler: Any, steps: int, times: str | None, seed: int = 0
    ) -> tuple[Tensor, int]:
        """Flat pictures (n, d) in [0, 1], and the evaluations that a block of them took."""
        stream = torch.Generator(device()).manual_seed(seed)
        counted = Counted(replace(self.denoiser, process=process))
        parts = []
        for _ in range(-(-n // BLOCK)):
            shape = (min(n, BLOCK), 1, self.side, self.side)
            settings: dict[str, Any] = {"sampler": sampler, "steps": steps, "times": times, "device": device()}
            parts.append(sample(Clipped(counted, self.low, self.high), shape, generator=stream, **settings))
        rows = self.scales.inverse(torch.cat(parts)[:n].flatten(1))
        return rows.clamp(0, 1), counted.counts[0] // len(parts)


def squared(rows: Tensor) -> Tensor:
    """Flat pictures (n, d) as (n, 1, h, w)."""
    return rows.reshape(len(rows), 1, side_of(rows), side_of(rows))


def trained(path: Path, model: Any, X: Tensor, given: Any) -> tuple[Any, float]:
    """The model of this file, or one that learns for the given time and is kept there; and the seconds it took."""
    own = {} if isinstance(model.network, str) else {"network": model.network}
    if path.exists():
        return on_device(benthic.load(path, modules=own)), 0.0
    start = time.perf_counter()
    model.fit(squared(X))
    seconds = time.perf_counter() - start
    model.save(path, leave_out=[*own])
    return model, seconds


def sizes(given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the network and of training."""
    if given.quick:
        return {**NETWORK, "channels": 8, "blocks": 1}, {**TRAINER, "steps": 20, "batch_size": 32}
    budget = {"steps": 10_000_000, "seconds": given.seconds}
    if given.halved:
        return SMALL, {**TRAINER, "batch_size": 128, **budget}
    return NETWORK, {**TRAINER, **budget}


def on_device(model: Any) -> Any:
    """A model that was read from a file, its network on the device."""
    channels_last(model.network_.to(device()))
    return model


def facts(model: Any, network: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What is to be known about a model that was trained."""
    weights = sum(p.numel() for p in model.network_.parameters())
    return {
        "model": type(model).__name__,
        "weights": weights,
        "epochs": model.n_iter_,
        "seconds": seconds,
        "loss": model.history_[-1]["loss"],
        "network": network,
        "trainer": {k: v for k, v in dict(model.trainer).items() if k != "verbose"},
    }


def judge_of(path: Path, data: tuple[Tensor, ...], quick: bool) -> Judge:
    """The classifier of this file, or one that is trained and kept there."""
    judge = Judge(side=side_of(data[0])).to(device())
    if path.exists():
        judge.load_state_dict(torch.load(path, map_location=device(), weights_only=True))
        return judge.eval()
    judge, found = train_judge(*data, 1 if quick else 10)
    print(found, flush=True)
    torch.save(judge.state_dict(), path)
    return judge


def floors(judge: Judge, X: Tensor, held: Tensor, repeats: int = 5) -> Callable[[int], float]:
    """The mean distance of so many training pictures, by their number."""
    real, known = judge.features(held), {}

    def floor(n: int) -> float:
        if n not in known:
            streams = [torch.Generator().manual_seed(seed) for seed in range(repeats)]
            rows = [torch.randperm(len(X), generator=stream)[:n].to(X.device) for stream in streams]
            found = [frechet_distance(real, judge.features(X[some])).value for some in rows]
            known[n] = sum(found) / repeats
        return known[n]

    return floor


def table(data: tuple[Tensor, ...], given: Any) -> None:
    """Every sampler at every number of evaluations, one line each; those that matter most come first."""
    X, _, held, _ = data
    results = Results(given.out, "diffusion_table")
    judge = judge_of(given.out / "diffusion_judge.pt", data, given.quick)
    real, floor = judge.features(held), floors(judge, X, held)
    network, trainer = sizes(given)
    model = benthic.EDM(unet=network, trainer=trainer, random_state=0)
    model, seconds = trained(given.out / "diffusion_table.safetensors", model, X, given)
    results.once("weights", lambda: facts(model, network, seconds))
    weights, strips = Weights(model, side_of(X)), []
    distances = results.once("churn", lambda: churns(weights, judge, X, given))
    process, times, plan = SAMPLERS["Heun, churn"]
    best = replace(plan(35)[0], churn=float(min(distances, key=distances.__getitem__)))
    samplers = {**SAMPLERS, "Heun, churn": (process, times, _twice(best))}
    begun = time.perf_counter()

    def judged(process: Any, times: str | None, sampler: Any, steps: int, n: int) -> dict[str, Any]:
        start = time.perf_counter()
        drawn, evaluations = weights.draw(n, process, sampler, steps, times)
        distance = frechet_distance(real, judge.features(drawn))
        strips.append(torch.cat(list(squared(drawn[:24])[:, 0].float().cpu()), 1))
        save_png(given.out / "diffusion_table.png", torch.cat(strips))
        return {
            "evaluations": evaluations,
            "steps": steps,
            "samples": n,
            "frechet": distance.value,
            "frechet_error": distance.stderr,
            "floor": floor(n),
            "excess": distance.value - floor(n),
            "sampler": repr(sampler_of(sampler)),
            "process": repr(process),
            "seconds": time.perf_counter() - start,
        }

    planned = rows(judged, samplers, given)
    for name, work in planned:
        if name in results.found or time.perf_counter() - begun < given.judging:
            results.once(name, work)
    left = [name for name, _ in planned if name not in results.found]
    print(f"{len(left)} rows are left for another call", flush=True)


def churns(weights: Weights, judge: Judge, X: Tensor, given: Any) -> dict[str, float]:
    """How far samples of Heun's method with more or less added noise are from training pictures, by its amount."""
    n = 60 if given.quick else CLAIMED[given.halved] // 2
    real = judge.features(X[: 10 * n])
    process, times, plan = SAMPLERS["Heun, churn"]
    sampler, steps = plan(20 if given.quick else 35)
    found = {}
    for churn in CHURNS:
        drawn, _ = weights.draw(n, process, replace(sampler, churn=churn), steps, times, seed=1)
        found[f"{churn:g}"] = frechet_distance(real, judge.features(drawn)).value
    return found


def rows(
    judged: Callable[..., dict[str, Any]], samplers: dict[str, tuple[Any, str | None, Plan]], given: Any
) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """The names and the work of all rows of the table."""
    quick, samples = given.quick, HALVED if given.halved else SAMPLES
    counts = (20, 10) if quick else (10, 20, 50) if given.halved else (10, 20, 50, 1000)
    first = [(name, min(count, 20) if quick else count) for name, count in FIRST]
    rest = [(name, count) for count in counts for name in samplers]
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for place, (name, count) in enumerate([*first, *rest]):
        process, times, plan = samplers[name]
        n = 60 if quick else (CLAIMED[given.halved] if place < len(first) else samples[count])
        found.setdefault(f"{name}, {count}", partial(judged, process, times, *plan(count), n))
    for name, (process, sampler) in FREE.items():
        n = 60 if quick else samples[50]
        found[name] = partial(judged, process, None, sampler, 50, n)
    return list(found.items())


def bits(name: str, data: tuple[Tensor, ...], given: Any) -> None:
    """Bits per pixel of test pictures by a model that learned from dequantized ones."""
    X, held = ((255 * part).round() / 256 for part in (data[0], data[2]))
    stream = torch.Generator(X.device).manual_seed(0)
    noisy = X.repeat(1 if given.quick else COPIES, 1)
    noisy += torch.rand(noisy.shape, generator=stream, device=X.device) / 256
    network, trainer = sizes(given)
    trainer |= {"precision": "tf32"}  # of a level 8 bits see too little
    settings = SUBVP if name == "subvp" else {}
    torch.manual_seed(0)
    fine = FineUNet(float(noisy.std()), side_of(X), settings.get("process"), **network)
    kind = benthic.ScoreSDE if name == "subvp" else benthic.VariationalDiffusion
    model = kind(network=fine, trainer=trainer, random_state=0, **settings)
    results = Results(given.out, f"diffusion_{name}")
    model, seconds = trained(given.out / f"diffusion_{name}.safetensors", model, noisy, given)
    results.once("weights", lambda: facts(model, network, seconds))
    draw(model, given.out / f"diffusion_{name}.png", given.quick)
    plans = {"subvp": [("hutchinson(4)", 500)], "vdm": [("elbo(16)", 2000), ("elbo(32)", 10_000)]}[name]
    for method, n in plans:
        count = 8 if given.quick else n
        results.once(method, lambda m=method, n=count: measured(model, held[:n], m))
    if name == "subvp":
        results.once("solver", lambda: compared(model, held[: 4 if given.quick else 64]))


def measured(model: Any, held: Tensor, method: str) -> dict[str, Any]:
    """Mean and standard error of the bits of a pixel."""
    start = time.perf_counter()
    found = model.bits_per_dim(squared(held), method, level=1 / 256).double()
    return {
        "bits_per_dim": float(found.mean()),
        "standard_error": float(found.std()) / len(found) ** 0.5,
        "pictures": len(found),
        "dequantization": "uniform, (level + u) / 256 with 256 levels, in training and testing",
        "process": repr(model.process_),
        "seconds": time.perf_counter() - start,
    }


def compared(model: Any, held: Tensor) -> dict[str, Any]:
    """What an adaptive solver with a tolerance of 1e-4 makes of the same pictures and one probe, in bits of a pixel."""
    stream = torch.Generator(held.device).manual_seed(1)
    x = held + torch.rand(held.shape, generator=stream, device=held.device) / 256
    fixed = model.likelihood(squared(x), "hutchinson(4)").value
    points = squared(model.scales_.transform(x).float())
    options: dict[str, Any] = {"trace": "rademacher", "probes": 4, "rtol": 1e-4, "atol": 1e-4, "mode": "reverse"}
    adaptive = log_likelihood(model.denoiser(), points, seed=0, **options).value + model.scales_.log_jacobian()
    found = [float(value.double().mean() / held.shape[1] + math.log(1 / 256)) for value in (fixed, adaptive)]
    fixed_bits, adaptive_bits = (-value / math.log(2) for value in found)
    return {"fixed steps": fixed_bits, "adaptive": adaptive_bits, "pictures": len(held)}


def draw(model: Any, path: Path, quick: bool) -> None:
    """Ten rows of samples as a picture."""
    n = 10 if quick else 100
    found = model.sample(n, seed=0, sampler="dpm2m", steps=10 if quick else 50)
    rows = torch.as_tensor(found).float().cpu()[:, 0].split(10)  # ten pictures (10, h, w) each
    save_png(path, torch.cat([torch.cat(list(row), 1) for row in rows]))


def main() -> None:
    """The parts that are asked for, one after another."""
    names = {"nargs": "+", "default": ["table", "subvp", "vdm"], "choices": ["table", "subvp", "vdm"]}
    times = {
        "seconds": {"type": float, "default": 300.0, "help": "of training, for each model"},
        "judging": {"type": float, "default": 240.0, "help": "after which the table begins no new row"},
    }
    small = {"action": "store_true", "help": "14 by 14 pixels and a smaller network"}
    given = arguments(__doc__ or "", names=names, halved=small, **times)
    warnings.simplefilter("ignore")
    given.out.mkdir(parents=True, exist_ok=True)
    data = pictures(given.data, given.quick, given.halved)
    for name in given.names:
        table(data, given) if name == "table" else bits(name, data, given)


if __name__ == "__main__":
    main()
